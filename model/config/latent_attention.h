// LatentAttention: multi-head latent attention as data. Queries, keys and values are computed from two low-rank rows
// (latents) per position. Only a small part of a key is rotated by its position, and all heads share that part:
//   q = W_qb norm(W_qa h), per head nope | rope          (without W_qa: Wq h)
//   c | k_rope = W_kva h;   k_nope | v = W_kvb norm(c), per head;   k = k_nope | rope(k_rope)
// The cache stores one row per position for all heads, norm(c) | rope(k_rope), and attention reads that row directly.
// The part of W_kvb for a head, W_k above W_v, is applied to the query and to the output instead:
//   q_nope . k_nope = q_nope . W_k norm(c) = (W_k^T q_nope) . norm(c)
//   sum of p v      = sum of p W_v norm(c) = W_v (sum of p norm(c))
// So the query of a head is W_k^T q_nope | rope(q_rope), the row is its key, the first kv_rank numbers of the row are
// its value, and W_v is applied to the output of attention. All passes use this form, even if the expanded form would
// be faster, because the two differ in rounding (docs/decisions/0033). Both parts of a row are zero-padded to multiples
// of kLatentUnit. Source: DeepSeek-V2 2024.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "kernels/layout/kv_head_block.h"
#include "kernels/layout/panel.h"

namespace ibid {

struct LatentAttention {
  size_t q_rank = 0;           // rank of the latent of the queries; 0: queries have no latent
  size_t kv_rank = 0;          // rank of the latent of keys and values; 0: no latent attention
  size_t nope_dim = 0;         // size of the part of a query or key that is not rotated
  size_t rope_dim = 0;         // size of the rotated part, which follows the part that is not rotated
  bool adjacent_pairs = true;  // RoPE rotates pairs of neighbours; false: pairs i and i + rope_dim / 2
  size_t value_dim = 0;

  bool used() const { return kv_rank != 0; }
  // Returns mscale_all_dim of config.json from the number in GGUF, which is a tenth of it, rounded to a float.
  static double whole_multiplier(double tenth) { return std::round(tenth * 1e7) / 1e6; }
  size_t key_dim() const { return nope_dim + rope_dim; }
  // Number of floats of the value part of a cached row, and of the whole row.
  size_t row_value_dim() const { return whole_units(kv_rank); }
  size_t row_dim() const { return row_value_dim() + whole_units(rope_dim); }

 private:
  static size_t whole_units(size_t n) { return (n + kLatentUnit - 1) / kLatentUnit * kLatentUnit; }
};

inline constexpr size_t kMaxLatentRopeDim = 512;

// Epsilon of the norms of latents.
inline constexpr float kLatentNormEps = 1e-6f;

// W_kvb in the two forms that attention over latent rows needs.
struct LatentExpansion {
  PackedMatrix keys;    // [H row_value_dim, nope_dim] W_k transposed: each head has a row for each number of c
  PackedMatrix values;  // [H value_dim, kv_rank]
};

struct LatentWeights {
  PackedMatrix wq_a;                   // [q_rank, D]
  PackedMatrix wq_b;                   // [H key_dim, q_rank]
  PackedMatrix wkv_a;                  // [kv_rank + rope_dim, D]
  LatentExpansion wkv_b;               // [H (nope_dim + value_dim), kv_rank]
  std::span<const float> bq_a, bkv_a;  // optional
  std::span<const float> q_a_norm;     // [q_rank]
  std::span<const float> kv_a_norm;    // [kv_rank]
};

}  // namespace ibid
