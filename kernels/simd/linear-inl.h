// The table entries of linear layers. Included by isa_*.cc.

#include "kernels/kernels.h"
#include "kernels/simd/linear_float-inl.h"
#include "kernels/simd/linear_int8-inl.h"

namespace ibid::IBID_ISA {
namespace {

// --- Quantisation of the inputs, written once against vec_*.h.

// Quantises one block of 32 columns.
IBID_INLINE void quantize_block(const float* x, size_t row, size_t b, const QuantizedRows& out) {
  const size_t at = out.at(row, b);
  int8_t* q = out.q + at * kQuantBlock;
  const V16 first = loadu(x), second = loadu(x + 16);
  const float largest = reduce_max(max(abs(first), abs(second)));
  float scale = 0.0f, inverse = 0.0f;
  if (!(largest < kMinBlockMagnitude)) {
    scale = largest / 127.0f;
    inverse = 127.0f / largest;
  }
  const I16 q0 = to_int(mul(first, set1(inverse)));
  const I16 q1 = to_int(mul(second, set1(inverse)));
  store_i8(q, q0);
  store_i8(q + 16, q1);
  const int32_t sum0 = reduce_add(q0), sum1 = reduce_add(q1);
  out.scale[at] = scale;
  out.scaled_sum[at] = scale * static_cast<float>(sum0 + sum1);
  out.offset16[out.half_at(row, b, 0)] = -128 * sum0;
  out.offset16[out.half_at(row, b, 1)] = -128 * sum1;
  out.offset32[at] = -128 * (sum0 + sum1);
}

void quantize_blocks(const float* x, size_t row, Range blocks, QuantizedRows& out) {
  const size_t used = out.n_cols / kQuantBlock;
  alignas(64) static constexpr float kPadding[kQuantBlock] = {};
  for (size_t b = blocks.begin; b < blocks.end; ++b) {
    const float* block = b < used ? x + b * kQuantBlock : kPadding;
    quantize_block(block, row, b, out);
  }
}

void fill_linear(Kernels& table) {
  table.linear_int8 = linear_int8;
  table.linear_float = linear_float;
  table.widen_panels = widen_panels;
  table.quantize_blocks = quantize_blocks;
}

}  // namespace
}  // namespace ibid::IBID_ISA
