// Contract of the kernels: a table of function pointers for each instruction set, one of which is chosen at start
// (kernels/ops/dispatch.h). kernels/reference/ has a readable reference kernel for every function.
//
// Rules for every function and every table:
//   - Row independence: the result for one row depends on that row alone, never on n_rows, on the other rows or on how
//     work was split. Sums run in increasing k in one float accumulator per output; reductions over a row (norms,
//     softmax sums) use 16 virtual lanes, lane i taking elements i, i + 16, ..., and the fixed tree ((l0+l8)+(l4+l12))
//     + ... of reduce_add16 in kernels/reference/ref.h.
//   - fma means one rounding (std::fma, vfmadd). The compiler contracts no other expression.
//   - The tables of all instruction sets agree bit for bit. The table of Numerics::kReference (the oracle) computes the
//     same functions with double accumulators on float weights; its results agree approximately with those of the other
//     tables.
//   - Pointers are 64-byte aligned at row 0 unless stated otherwise; row strides are in elements and multiples of 16;
//     every row has space for whole vectors of 16 at its end, and the elements in that space may be overwritten with
//     any finite number.
//   - No function allocates, throws or locks. For finite input the output is finite (see norms, softmax).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"
#include "ibid/numerics.h"
#include "kernels/layout/kv_head_block.h"
#include "kernels/layout/panel.h"
#include "kernels/layout/quantized_rows.h"
#include "kernels/layout/recurrent.h"

namespace ibid {

// Element-wise activation function of an MLP; Kernels::activate computes it.
struct Activation {
  enum class Kind : uint8_t {
    kSilu,         // x / (1 + exp(-x))
    kGelu,         // x (1 + erf(x / sqrt 2)) / 2   (Hendrycks & Gimpel 2016)
    kGeluTanh,     // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    kReluSquared,  // max(x, 0)^2   (So et al. 2021)
    kSigmoid,      // 1 / (1 + exp(-x)), for gates
    kXielu,        // x > 0: alpha_p x^2 + beta x, else alpha_n (expm1(min(x, eps)) - x) + beta x  (Huang & Schlag 2024)
  };
  Kind kind = Kind::kSilu;
  float alpha_p = 0, alpha_n = 0, beta = 0, eps = 0;  // parameters of kXielu
};

// An INT8 block whose largest magnitude is below this counts as zeros: 127 / max would overflow.
inline constexpr float kMinBlockMagnitude = 1e-35f;

// Softmax weights for INT8 values are quantised to 16-bit integers, stored as two bytes: their sum over 256 positions
// just fits 32 bits (65535 * 127 * 256 < 2^31), and their quantisation step is far smaller than that of a value.
inline constexpr int kCodeByteBits = 8;
inline constexpr float kLargestWeightCode = 65535.0f;
inline constexpr float kTinyWeight = 1e-33f;  // below this, 65535 / (largest weight) would overflow

// Squares of numbers above 1.8e19 overflow a float. A row with such numbers is multiplied by this power of two before
// its norm, which does not change the result, because eps is negligible beside such squares.
inline constexpr float kHugeRow = 0x1p-96f;
// True for infinity and for NaN (the sum of infinities of both signs).
[[gnu::always_inline]] constexpr bool exceeds_float(float mean) { return !(mean <= 0x1.fffffep127f); }

// Partial softmax-weighted sums of values for some rows: sum of exp(s - max), and of exp(s - max) * v, over the visible
// positions so far (initially max = -inf, sum = 0, out = 0). The arrays may have any alignment.
struct AttendSums {
  float* max;  // [n_rows] largest score so far
  float* sum;  // [n_rows]
  float* out;  // [n_rows, out_stride] not yet divided by `sum`; whole vectors up to v_dim are written
  size_t out_stride;
};

// The queries of one KV head (all query heads that share it) against one block of up to 256 positions. Row i sees the
// positions [row_begin[i], row_end[i]) of the sequence that are in the block. Data stored at other positions, even NaN,
// never changes the row's result; pages in which no row sees a position are not read.
struct AttendTile {
  const std::byte* const*
      head_blocks;                 // this KV head's block in each page of the tile; heads[0] starts at position `begin`
  const std::byte* const* values;  // for latent rows only: the output of latent_values() for each page
  size_t begin;                    // first absolute position of the block, a multiple of 256
  const float* q;                  // [n_rows, q_stride], not scaled; after rope and any Hadamard transform of keys
  size_t q_stride;
  size_t n_rows;            // query rows: tokens x query heads per KV head
  const size_t* row_begin;  // [n_rows]
  const size_t* row_end;    // [n_rows]
  float scale;              // factor of the scores (usually head_dim^-1/2)
  float softcap;            // 0: no cap; else s = softcap * tanh(s / softcap)
  bool same_rows;           // true: rows and queries are the same as in the previous call with this scratch
  const std::byte* const* next_head_blocks;  // [n_next] KV head blocks that the caller will read next (prefetch hint)
  size_t n_next;
  AttendSums result;  // output
};

struct Kernels {
  const char* name;  // name of the table: "ref", "avx2", "avxvnni", "avx512", "amx", "reference"

  // --- Linear layers: y[i, r] = sum over k of W[r, k] x[i, k] for the rows r of panels [panels.begin, panels.end).
  // Computed for each group of 32 or 16 columns that share a scale (kernels/layout/panel.h), in increasing order:
  //   acc = fma(float(integer sum of code * q), s * x.scale, acc)
  //   acc = fma(m, x.scale * float(sum of q), acc)    (types with a min; x.scaled_sum for 32, for 16 from offset16)
  // over the padded columns. Both groups of 16 use the x.scale of their block of 32. y: [x.n_rows, y_stride], y_stride
  // >= 16 * panels.size(). scratch: linear_scratch_bytes(n_cols) per thread, 64-byte aligned.
  void (*linear_int8)(const PackedMatrix& w, const QuantizedRows& x, Range panels, float* y, size_t y_stride,
                      std::byte* scratch);
  // Float panels: acc = fma(w, x[k], acc), k increasing. x: [n_rows, x_stride].
  void (*linear_float)(const PackedMatrix& w, const float* x, size_t x_stride, size_t n_rows, Range panels, float* y,
                       size_t y_stride);
  // Converts columns of float panels to floats, exactly, for BLAS: out[columns.size(), 16 * panels.size()].
  void (*widen_panels)(const PackedMatrix& w, Range panels, Range columns, float* out);

  // --- rows
  // Quantises blocks [blocks.begin, blocks.end) of 32 columns of the row x (n_cols floats) into row `row` of `out`: q =
  // round(x * (127 / max)). Columns after n_cols are padding; x is not read there. A block whose largest magnitude is
  // below kMinBlockMagnitude counts as zeros; a block of zeros has scale 0.
  void (*quantize_blocks)(const float* x, size_t row, Range blocks, QuantizedRows& out);
  // y = x * (1 / sqrt(mean(x^2) + eps)) * weight, as (x * inv) * weight. y may be x. (Zhang & Sennrich 2019)
  // In both norms: if exceeds_float() holds for the mean of squares, the result is the norm of x * kHugeRow, eps 0.
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t n, float* y);
  // y = (x - mean) * (1 / sqrt(mean((x - mean)^2) + eps)) * weight + bias; bias may be null. y may be x. (Ba et al.
  // 2016)
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, size_t n, float* y);
  // y = silu(gate) * up, silu(g) = g / (1 + exp(-g)). y may be gate or up. (Shazeer 2020)
  void (*silu_mul)(const float* gate, const float* up, size_t n, float* y);
  // y = (up' + 1) * (g / (1 + exp(-(g * alpha)))), g = min(gate, limit), up' = up clamped to [-limit, limit].
  // y may be gate or up. (gpt-oss model card 2025)
  void (*clamped_swiglu)(const float* gate, const float* up, float limit, float alpha, size_t n, float* y);
  void (*activate)(const Activation& f, const float* x, size_t n, float* y);  // y = f(x). y may be x.
  void (*softcap)(float* x, float cap, size_t n);                             // x = cap tanh(x / cap)
  void (*add)(float* x, const float* y, size_t n);                            // x += y
  void (*multiply)(float* x, const float* y, size_t n);                       // x *= y
  void (*scale)(float* x, float factor, size_t n);                            // x *= factor
  // Rotates pairs (x[i], x[i + rotary_dim / 2]) of one head by the angles of cos_sin: [rotary_dim / 2] cos,
  // then [rotary_dim / 2] sin. x' = fma(x, cos, -(y * sin)), y' = fma(x, sin, y * cos). (Su et al. 2021)
  // x: any float alignment.
  void (*rope)(float* x, const float* cos_sin, size_t rotary_dim);

  // --- recurrent layers (kernels/layout/recurrent.h has the formulas)
  void (*softplus)(const float* x, const float* bias, size_t n, float* y);    // y = log(1 + exp(x + bias)). y may be x.
  void (*decay)(const float* steps, const float* rates, size_t n, float* y);  // y = exp(steps * rates), y may be steps
  // Computes the channels of a short convolution; channels.begin is a multiple of 16.
  void (*short_conv)(const ConvStep& step, Range channels);
  void (*update_state)(const StateStep& step);                   // all columns of a head
  void (*selective_scan)(const ScanStep& step, Range channels);  // channels.begin is a multiple of 16

  // --- keys and values
  // Hadamard-transforms the n numbers of a head in place (kernels/layout/hadamard.h). Except for rounding the function
  // is its own inverse. x: any float alignment; memory after n numbers is not accessed. 0 < n <= kMaxHeadDim.
  void (*hadamard)(float* x, size_t n);
  // Stores keys and values of one position (0..63) in a head's block. k, v: head_dim floats, any float alignment. For
  // latent rows v is not read: k contains the values.
  void (*kv_store)(const KvHeadBlock& block, std::byte* head, size_t position, const float* k, const float* v);
  // Loads one position as floats, and undoes the Hadamard transform of parts that are stored transformed; for latent
  // rows v is the first latent_dim numbers of k. For tests and conversion.
  void (*kv_load)(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v);
  // Copies the values of a page of latent rows into the layout of V (KvHeadBlock), without checking them:
  // value_order() bytes, 64-byte aligned. INT8 codes become q, as in V; scales are not copied.
  void (*latent_values)(const KvHeadBlock& block, const std::byte* head, std::byte* values);
  // Scores, exp and weighted values of one tile, per row. Queries are transformed like keys, results like values.
  //   F32, F16:  s = scale * (sum over d of q[d] k[d], increasing d, one fma each)
  //   INT8:      q is quantised as a stored row is; s = scale * (float(integer dot) * (q_scale * k_scale))
  //   INT4 keys: q is quantised as for INT8; t = 0, then for every 32 dimensions, increasing,
  //              t = fma(float(integer dot), k_scale, t), t = fma(float(sum of q), k_minimum, t);
  //              s = scale * (t * q_scale)
  //   Latent rows: both parts of q (the first latent_dim dimensions, and the rest) are quantised separately, each with
  //   its own scale.
  //     INT8:    t = float(first dot) * (q_scale * k_scale),
  //              t = fma(float(second dot), second q_scale * second k_scale, t);  s = scale * t
  //     INT4:    t as for INT4 keys, but k_scale * q_scale replaces k_scale, and float(sum of q) * q_scale replaces
  //              float(sum of q), each with the q_scale of its part;  s = scale * t
  //   max = largest s, with -0 replaced by +0; p = exp(s - max); sum of p in 16 lanes, lane = position mod 16
  //   F32, F16:  out[d] = fma(p, v[d], out[d]) in increasing position
  //   INT8:      w = p * v_scale, top = largest w; code = round to nearest even of w * (65535 / top), or 0 if
  //              top < kTinyWeight;  out[d] = float(integer sum of code * v[d]) * (top / 65535)
  //   INT4 values: as INT8, for every 32 dimensions with their scales, and
  //              out[d] = fma(float(integer sum), top / 65535, floor), floor = the sum of p * v_minimum in 16 lanes,
  //              lane = fma(p, v_minimum, lane)
  void (*attend_tile)(const KvHeadBlock& block, const AttendTile& tile, std::byte* scratch);
  // Merges part into total, per row (Milakov & Gimelshein 2018):
  //   m = max(total.max, part.max); a = exp(total.max - m), b = exp(part.max - m)
  //   sum = fma(total.sum, a, part.sum * b), out = fma(total.out, a, part.out * b), max = m
  // A row of part without visible positions (max = -inf) leaves total unchanged.
  void (*attend_merge)(const AttendSums& total, const AttendSums& part, size_t n_rows, size_t head_dim);
};

// Largest register tile of a linear layer, over all instruction sets; determines the scratch size.
inline constexpr size_t kMaxLinearPanels = 2;
inline constexpr size_t kMaxLinearRows = 16;

// Maximum rows of an attention tile whose scores are computed together, so that they and a page of floats fit into L1.
inline constexpr size_t kAttendPassRows = 16;
// Maximum rows of a register tile of attention, over all instruction sets.
inline constexpr size_t kMaxAttendRows = 4;

// Scratch bytes that one thread needs.
size_t linear_scratch_bytes(size_t max_n_cols);
size_t attend_scratch_bytes(size_t max_rows, size_t head_dim);  // max_rows: the largest n_rows of a tile

}  // namespace ibid
