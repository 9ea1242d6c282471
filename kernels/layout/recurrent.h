// Parameters of the kernels of recurrent layers: plain data, which the forward pass fills
// (model/forward/recurrent_block.cc) and the functions of Kernels read (kernels/kernels.h).
//
// Each of the three kernels advances a state by the rows of one sequence, one row at a time, and sums each element of
// the state in one fixed order. So results are bit-identical however rows are split into calls, recomputed or batched
// with other sequences. Different columns, channels or heads are independent: threads divide these among them, never
// rows.
//   S    state of one head: N keys by P values. Mamba-2 calls keys B, queries C, values x, rates dt.
//   d    decay factor of a row of S, applied before a token is added: one number per head, or one per key.
//
//                     d                        rate        delta
//   Mamba-2           exp(dt A)                dt          no      (Dao & Gu 2024)
//   gated delta       exp(g)                   beta        yes     (Yang et al. 2025)
//   Kimi delta        exp(g), for each key     beta        yes     (Kimi Linear 2025)
//   lightning         exp(-s)                  1           no      (Qin et al. 2024; MiniMax-01 2025)
// These types own no memory. Strides and counts are in floats; `before` and `after` of a StateStep are 64-byte aligned.
#pragma once

#include <cstddef>

namespace ibid {

// y[t][c] = bias[c] + sum over j of weight[j][c] x[t - (K - 1) + j][c], j increasing, one fma each; without a bias the
// sum starts at 0. If `silu` is set, y / (1 + exp(-y)) follows. The K - 1 inputs before row 0 are the history.
struct ConvStep {
  size_t n_taps = 0;              // K in shapes, >= 1; the last tap multiplies the row itself
  size_t n_rows = 0;              // T in shapes
  const float* weight = nullptr;  // [K, weight_stride]
  size_t weight_stride = 0;
  const float* bias = nullptr;     // [channels], or nullptr
  const float* history = nullptr;  // [K - 1, history_stride] the oldest first; nullptr: zeros
  size_t history_stride = 0;
  const float* x = nullptr;  // [T, x_stride]
  size_t x_stride = 0;
  float* y = nullptr;  // [T, y_stride]; must not be x
  size_t y_stride = 0;
  bool silu = false;
};

// Columns of S per tile; the last tile of a head may be narrower, in whole vectors of 16.
inline constexpr size_t kStateTile = 64;

// Memory layout of S: tile after tile of up to 64 columns, each tile [N keys, its columns]. P is padded to a multiple
// of 16 with columns that stay 0.
inline constexpr size_t state_columns(size_t n_values) { return (n_values + 15) / 16 * 16; }
inline constexpr size_t state_floats(size_t n_keys, size_t n_values) { return n_keys * state_columns(n_values); }

// For every row t, and every column p of S:
//   predicted = sum over i of S[i][p] (d_i k_i)              (predicted value; i increasing, one fma each; delta only)
//   u    = rate (v[p] - predicted)                           (without delta: rate v[p])
//   S[i][p] = fma(k_i, u, d_i S[i][p])
//   out[p]  = fma(skip, v[p], sum over i of S[i][p] q_i) (i increasing, one fma each)
struct StateStep {
  size_t n_keys = 0, n_values = 0;  // N, P in shapes
  size_t n_rows = 0;                // T in shapes; at least 1
  bool delta = false;
  bool decay_per_key = false;
  const float* keys = nullptr;          // [T, key_stride] k
  const float* queries = nullptr;       // [T, key_stride] q
  const float* decayed_keys = nullptr;  // [T, key_stride] decay times key; only if `delta`
  const float* decays = nullptr;        // [T, key_stride] if decay_per_key; else [T, number_stride]
  size_t key_stride = 0;
  const float* values = nullptr;  // [T, value_stride] v
  size_t value_stride = 0;
  const float* rates = nullptr;  // [T, number_stride]; nullptr: 1
  size_t number_stride = 0;
  float skip = 0;
  const float* before = nullptr;  // [state_floats()]; nullptr: zeros. May be `after`.
  float* after = nullptr;
  float* out = nullptr;  // [T, out_stride]; nullptr: no output
  size_t out_stride = 0;
};

// Mamba-1 (Gu & Dao 2023): a state of N numbers per channel, with a decay for each number.
//   h[n] = fma(B[n], dt x, exp(dt A[n]) h[n]),   out = fma(skip, x, sum over n of h[n] C[n])   (n increasing)
// Memory layout of h: [channels / 16][N][16].
struct ScanStep {
  size_t n_states = 0;           // N in shapes
  size_t n_rows = 0;             // T in shapes; at least 1
  const float* steps = nullptr;  // [T, channel_stride] dt
  size_t channel_stride = 0;
  const float* values = nullptr;  // [T, value_stride] x
  size_t value_stride = 0;
  const float* keys = nullptr;     // [T, state_stride] B
  const float* queries = nullptr;  // [T, state_stride] C
  size_t state_stride = 0;
  const float* rates = nullptr;  // [N, rate_stride] the matrix A of Mamba: negative numbers
  size_t rate_stride = 0;
  const float* skip = nullptr;    // [channels] D
  const float* before = nullptr;  // nullptr: zeros. May be `after`.
  float* after = nullptr;
  float* out = nullptr;  // [T, out_stride]; nullptr: no output
  size_t out_stride = 0;
};

}  // namespace ibid
