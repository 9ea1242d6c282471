// LatentAttention: multi-head latent attention as data. Queries, keys and values are made from two short rows
// (latents) of each position. Only a small part of a key is rotated with its position, and that part is the same
// for all heads:
//
//   q = W_qb norm(W_qa h), per head nope | rope          (without W_qa: Wq h)
//   c | k_rope = W_kva h;   k_nope | v = W_kvb norm(c), per head;   k = k_nope | rope(k_rope)
//
// Keys and values are kept expanded, per head, as in any other attention, so a position costs H (key + value) and
// not one latent row. A head of the cache is as wide as the wider of key and value; the other one is padded with
// zeros.
// Source: DeepSeek-V2 2024.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "kernels/linear/panel.h"

namespace ibid {

struct LatentAttention {
  size_t q_rank = 0;      // of the queries' latent; 0: there is none
  size_t kv_rank = 0;     // of the latent of keys and values; 0: the model has another attention
  size_t nope_dim = 0;    // of a head of queries and keys: what is not rotated,
  size_t rope_dim = 0;    // and behind it what is, in adjacent pairs
  size_t value_dim = 0;

  bool used() const { return kv_rank != 0; }
  // GGUF has a tenth of mscale_all_dim, as a float. Returns the whole, as config.json had it.
  static double whole_multiplier(double tenth) { return std::round(tenth * 1e7) / 1e6; }
  size_t key_dim() const { return nope_dim + rope_dim; }
  size_t head_dim() const { return std::max(key_dim(), value_dim); }
};

inline constexpr size_t kMaxLatentRopeDim = 512;

// The norms of latents have an epsilon of their own.
inline constexpr float kLatentNormEps = 1e-6f;

struct LatentWeights {
  PackedMatrix wq_a;                     // [q_rank, D]
  PackedMatrix wq_b;                     // [H key_dim, q_rank]
  PackedMatrix wkv_a;                    // [kv_rank + rope_dim, D]
  PackedMatrix wkv_b;                    // [H (nope_dim + value_dim), kv_rank]
  std::span<const float> bq_a, bkv_a;    // optional
  std::span<const float> q_a_norm;       // [q_rank]
  std::span<const float> kv_a_norm;      // [kv_rank]
};

}  // namespace ibid
