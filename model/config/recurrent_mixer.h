// RecurrentMixer: the recurrent layers of a model as data. In place of attention (or beside it) such a layer keeps a
// state of fixed size: the inputs of a short convolution, and for each head a matrix S that decays and takes in one
// outer product with every token. All kinds are one chain (model/forward/recurrent_block.cc):
//
//   q | k | v = short_conv(W h)      z = W_z h        decay, rate = of numbers for each head
//   S = decay S + k (outer) rate (v - [what S tells of k])         o = S^T q + skip v
//   x += W_out norm_and_gate(o, z)
//
//   rule          q, k, v                         decay             rate            source
//   kShortConv    conv(k * v) q, without a S                                        LFM2 2025
//   kMamba1       C, B, x; S by channel           exp(dt A)         dt              Gu & Dao 2023
//   kMamba2       C, B, x                         exp(dt A)         dt              Dao & Gu 2024
//   kGatedDelta   q, k, v of unit length          exp(A softplus)   beta, told      Yang et al. 2025
//   kKeyedDelta   likewise                        for each key      beta, told      Kimi Linear 2025
//   kLightning    q, k, v                         of head and layer 1               MiniMax-01 2025
//
// States and everything that updates them are F32. What one position gives to the state, its row, is what the
// convolution reads, the rates and the decays: from these the next state is computed again, bit by bit.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/layout/panel.h"
#include "kernels/layout/recurrent.h"

namespace ibid {

enum class RecurrentRule : uint8_t { kNone, kShortConv, kMamba1, kMamba2, kGatedDelta, kKeyedDelta, kLightning };

// What becomes of o before W_out: nothing but o silu(z), norm(o silu(z)), norm(o) silu(z), norm(o) sigmoid(z).
enum class OutputGate : uint8_t { kNoNorm, kGateThenNorm, kNormThenGate, kNormThenSigmoid };

// How a file's fused tensor of the layer's inputs holds its parts.
enum class FusedInputs : uint8_t {
  kQkv,          // all q, all k, all v
  kGroups,       // for each key head its q, its k, the v of its heads, their z; numbers: the rates, then the decays
  kHeads,        // for each head its q, k, v
  kZvkq,         // z, v, k, q and the numbers (Mamba-2 calls them z, x, B, C, dt)
  kVz,           // v, z (Mamba-1: x, z)
  kKqv,          // k, q, v (short convolutions: B, C, x)
};

struct RecurrentMixer {
  RecurrentRule rule = RecurrentRule::kNone;
  size_t n_heads = 0;          // H, of values
  size_t n_key_heads = 0;      // of keys and queries; head h reads key head h / (H / n_key_heads)
  size_t key_dim = 0;          // N
  size_t value_dim = 0;        // P
  size_t n_taps = 1;           // of the convolution; 1: there is none
  size_t step_rank = 0;        // Mamba-1: rank of dt
  size_t low_rank = 0;         // kKeyedDelta: rank of decays, and of the output's gate
  OutputGate gate = OutputGate::kNoNorm;
  size_t norm_parts = 1;       // a row of o is normed in so many parts,
  bool norm_is_shared = false; // with one weight for all of them, or one for each
  float norm_eps = 0;
  float rate_scale = 1;        // of beta
  float step_low = 0, step_high = std::numeric_limits<float>::infinity();  // of dt
  float input_scale = 1;       // of h, within the factors below; biases are divided by it as they are read
  // Factors of what W h gives, by name; 1: none.
  float z_scale = 1, v_scale = 1, k_scale = 1, q_scale = 1, number_scale = 1;
  FusedInputs fused = FusedInputs::kQkv;
  bool tiled_heads = false;    // heads stand in another order: head h reads key head h % n_key_heads
  bool tiled_in_file = false;  // and in the file, too; else they are put in this order when they are read
  bool logs_of_decays = false; // the file has log(-A)

  bool used() const { return rule != RecurrentRule::kNone; }
  bool is_delta() const { return rule == RecurrentRule::kGatedDelta || rule == RecurrentRule::kKeyedDelta; }
  bool has_heads() const { return is_delta() || rule == RecurrentRule::kMamba2 || rule == RecurrentRule::kLightning; }
  bool scans() const { return rule == RecurrentRule::kMamba1; }

  size_t key_head_of(size_t head) const {
    return tiled_heads ? head % n_key_heads : head / (n_heads / n_key_heads);
  }

  // Outputs of W: what scan layers make of the convolved x they have no W for.
  size_t q_width() const { return scans() ? 0 : n_key_heads * key_dim; }
  size_t k_width() const { return q_width(); }
  size_t v_width() const { return n_heads * value_dim; }
  size_t z_width() const { return rule == RecurrentRule::kShortConv ? 0 : v_width(); }
  size_t rate_width() const { return is_delta() || rule == RecurrentRule::kMamba2 ? n_heads : 0; }
  size_t decay_width() const {
    return rule == RecurrentRule::kGatedDelta ? n_heads : rule == RecurrentRule::kKeyedDelta ? q_width() : 0;
  }

  // A row of the convolution: q | k | v, each from a whole vector on.
  static constexpr size_t padded(size_t n) { return (n + 15) / 16 * 16; }
  size_t k_at() const { return padded(q_width()); }
  size_t v_at() const { return k_at() + padded(k_width()); }
  size_t row_width() const { return v_at() + padded(v_width()); }
  // What of it is convolved, or where there is no convolution, read all the same.
  size_t first_convolved() const { return has_heads() ? 0 : v_at(); }
  size_t convolved() const { return row_width() - first_convolved(); }

  // The state of a sequence: the last K - 1 rows that were convolved, then S.
  size_t history_floats() const { return (n_taps - 1) * convolved(); }
  size_t head_floats() const { return state_floats(key_dim, value_dim); }
  size_t state_floats_of_layer() const {
    const size_t of_heads = has_heads() ? n_heads * head_floats() : 0;
    return history_floats() + of_heads + (scans() ? padded(v_width()) * key_dim : 0);
  }
  // What a position gives: the row that was convolved | rates | decays. Of scan layers: x | dt | B.
  size_t rates_at() const { return convolved(); }
  size_t logged_rates() const { return padded(scans() ? v_width() : rate_width()); }
  size_t logged_decays() const {
    return padded(scans() ? key_dim : rule == RecurrentRule::kMamba2 ? n_heads : decay_width());
  }
  size_t decays_at() const { return rates_at() + logged_rates(); }
  size_t log_floats() const { return decays_at() + logged_decays(); }
};

struct RecurrentWeights {
  PackedMatrix w_q, w_k, w_v, w_z;         // [width, D]
  PackedMatrix w_rate, w_decay;            // [rate_width, D]; [decay_width, D or low_rank]
  PackedMatrix w_decay_low, w_gate_low;    // [low_rank, D] then w_decay and w_z read low_rank
  PackedMatrix w_scan, w_step;             // Mamba-1: [R + 2 N, d] dt | B | C; [d, R]
  PackedMatrix w_out;                      // [D, v_width]
  std::span<const float> conv_q, conv_k, conv_v;           // [K, width]
  std::span<const float> conv_q_bias, conv_k_bias, conv_v_bias;  // [width], or none
  std::span<const float> b_q, b_k, b_v, b_z, b_rate;       // of what W h gives: [width], or none
  std::span<const float> b_out;            // [D], or none
  std::span<const float> decay;            // A < 0: [H], of Mamba-1 [N, d]
  std::span<const float> step_bias;        // of what becomes dt, or a delta rule's decay
  std::span<const float> skip;             // D: [H], of Mamba-1 [d]
  std::span<const float> norm;             // [v_width], or of one part
  std::span<const float> step_norm, b_norm, c_norm;        // Mamba-1: [R], [N], [N]
};

}  // namespace ibid
