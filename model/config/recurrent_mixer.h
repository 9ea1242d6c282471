// RecurrentMixer: the recurrent layers of a model as data. Instead of attention (or beside it) such a layer keeps a
// state of fixed size: the last inputs of a short convolution, and for each head a matrix S that decays and adds one
// outer product per token. All kinds share one sequence of steps (model/forward/recurrent_block.cc):
//   q | k | v = short_conv(W h)      z = W_z h        decay, rate = functions of per-head projections of h
//   S = decay S + k (outer) rate (v - [S^T k: delta rules])        o = S^T q + skip v
//   x += W_out norm_and_gate(o, z)
//
//   rule          q, k, v                         decay             rate            source
//   kShortConv    conv(k * v) q, without S                                          LFM2 2025
//   kMamba1       C, B, x; S per channel          exp(dt A)         dt              Gu & Dao 2023
//   kMamba2       C, B, x                         exp(dt A)         dt              Dao & Gu 2024
//   kGatedDelta   q, k, v of unit length          exp(A softplus)   beta, delta     Yang et al. 2025
//   kKeyedDelta   likewise                        per key dimension beta, delta     Kimi Linear 2025
//   kLightning    q, k, v                         per head, layer   1               MiniMax-01 2025
// States and their updates are F32. The row that a position contributes to the state consists of the input of the
// convolution, the rates and the decays. The next state is recomputed from these rows bit for bit.
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

// How the input of W_out is computed: o silu(z), norm(o silu(z)), norm(o) silu(z), norm(o) sigmoid(z).
enum class OutputGate : uint8_t { kNoNorm, kGateThenNorm, kNormThenGate, kNormThenSigmoid };

// Order of the parts in the file's fused tensor that computes the layer's inputs. "Numbers" are the rates and decays,
// one per head.
enum class FusedInputs : uint8_t {
  kQkv,     // all q, all k, all v
  kGroups,  // for each key head its q and k, and v and z of its value heads; then all rates and all decays
  kHeads,   // for each head its q, k, v
  kZvkq,    // z, v, k, q, then rates and decays (in Mamba-2: z, x, B, C, dt)
  kVz,      // v, z (Mamba-1: x, z)
  kKqv,     // k, q, v (short convolutions: B, C, x)
};

struct RecurrentMixer {
  RecurrentRule rule = RecurrentRule::kNone;
  size_t n_heads = 0;      // H in shapes: number of value heads
  size_t n_key_heads = 0;  // number of key and query heads; head h reads key head h / (H / n_key_heads)
  size_t key_dim = 0;      // N in shapes
  size_t value_dim = 0;    // P in shapes
  size_t n_taps = 1;       // K: taps of the convolution; 1: no convolution
  size_t step_rank = 0;    // Mamba-1: rank of dt
  size_t low_rank = 0;     // kKeyedDelta: rank of the decays, and of the output gate
  OutputGate gate = OutputGate::kNoNorm;
  size_t norm_parts = 1;        // rows of o are divided into this number of parts, each normed by itself
  bool norm_is_shared = false;  // the parts share one weight; false: each part has its own
  float norm_eps = 0;
  float rate_scale = 1;                                                    // factor of beta (the rate of delta rules)
  float step_low = 0, step_high = std::numeric_limits<float>::infinity();  // range to which dt is limited
  float input_scale = 1;  // factor of h, contained in the factors below; biases are divided by it when they are read
  // Factors of the outputs of W h, by the name of the output; 1: no factor. number_scale: of rates and decays.
  float z_scale = 1, v_scale = 1, k_scale = 1, q_scale = 1, number_scale = 1;
  FusedInputs fused = FusedInputs::kQkv;
  bool tiled_heads = false;     // heads are ordered so that head h reads key head h % n_key_heads
  bool tiled_in_file = false;   // if tiled_heads: the file has this order too; false: packing reorders the heads
  bool logs_of_decays = false;  // the file stores log(-A) instead of A

  bool used() const { return rule != RecurrentRule::kNone; }
  bool is_delta() const { return rule == RecurrentRule::kGatedDelta || rule == RecurrentRule::kKeyedDelta; }
  bool has_heads() const { return is_delta() || rule == RecurrentRule::kMamba2 || rule == RecurrentRule::kLightning; }
  bool scans() const { return rule == RecurrentRule::kMamba1; }

  size_t key_head_of(size_t head) const { return tiled_heads ? head % n_key_heads : head / (n_heads / n_key_heads); }

  // Widths of the outputs of W h; 0 if the layer lacks an output, or computes it from the convolved x (Mamba-1).
  size_t q_width() const { return scans() ? 0 : n_key_heads * key_dim; }
  size_t k_width() const { return q_width(); }
  size_t v_width() const { return n_heads * value_dim; }
  size_t z_width() const { return rule == RecurrentRule::kShortConv ? 0 : v_width(); }
  size_t rate_width() const { return is_delta() || rule == RecurrentRule::kMamba2 ? n_heads : 0; }
  size_t decay_width() const {
    return rule == RecurrentRule::kGatedDelta ? n_heads : rule == RecurrentRule::kKeyedDelta ? q_width() : 0;
  }

  // Offsets in rows q | k | v, the convolution's inputs and outputs. Each part is padded to whole vectors.
  static constexpr size_t padded(size_t n) { return (n + 15) / 16 * 16; }
  size_t k_at() const { return padded(q_width()); }
  size_t v_at() const { return k_at() + padded(k_width()); }
  size_t row_width() const { return v_at() + padded(v_width()); }
  // Offset and width of the part of a row that the convolution reads or, without a convolution (n_taps 1), the
  // activation.
  size_t first_convolved() const { return has_heads() ? 0 : v_at(); }
  size_t convolved() const { return row_width() - first_convolved(); }

  // Floats of a sequence's state: the last K - 1 inputs of the convolution, then S.
  size_t history_floats() const { return (n_taps - 1) * convolved(); }
  size_t head_floats() const { return state_floats(key_dim, value_dim); }
  size_t state_floats_of_layer() const {
    const size_t of_heads = has_heads() ? n_heads * head_floats() : 0;
    return history_floats() + of_heads + (scans() ? padded(v_width()) * key_dim : 0);
  }
  // Layout of the row that a position logs (StateRows): convolution input | rates | decays; Mamba-1: x | dt | B.
  size_t rates_at() const { return convolved(); }
  size_t logged_rates() const { return padded(scans() ? v_width() : rate_width()); }
  size_t logged_decays() const {
    return padded(scans() ? key_dim : rule == RecurrentRule::kMamba2 ? n_heads : decay_width());
  }
  size_t decays_at() const { return rates_at() + logged_rates(); }
  size_t log_floats() const { return decays_at() + logged_decays(); }
};

struct RecurrentWeights {
  PackedMatrix w_q, w_k, w_v, w_z;                               // [width, D]
  PackedMatrix w_rate, w_decay;                                  // [rate_width, D]; [decay_width, D or low_rank]
  PackedMatrix w_decay_low, w_gate_low;                          // [low_rank, D]; then w_decay and w_z read it
  PackedMatrix w_scan, w_step;                                   // Mamba-1: [R + 2 N, d] for dt | B | C; [d, R]
  PackedMatrix w_out;                                            // [D, v_width]
  std::span<const float> conv_q, conv_k, conv_v;                 // [K, width]
  std::span<const float> conv_q_bias, conv_k_bias, conv_v_bias;  // [width]; empty: no bias
  std::span<const float> b_q, b_k, b_v, b_z, b_rate;             // biases of the outputs of W h: [width]; empty: none
  std::span<const float> b_out;                                  // [D]; empty: none
  std::span<const float> decay;                                  // A of exp(dt A), negative: [H]; Mamba-1: [N, d]
  std::span<const float> step_bias;                  // added to dt before softplus; in delta rules added to the decay
  std::span<const float> skip;                       // factor of v in o (D in papers): [H]; Mamba-1: [d]
  std::span<const float> norm;                       // [v_width], or one part if norm_is_shared
  std::span<const float> step_norm, b_norm, c_norm;  // Mamba-1: [R], [N], [N]
};

}  // namespace ibid
