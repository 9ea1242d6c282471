// Writing and reading one position of a head's keys and values over 16 lanes. Included after vec_<isa>.h,
// once per instruction set; the scalar twin is in ref_attention.cc.
#pragma once

#include "kernels/attention/kv_part_order.h"
#include "kernels/kernels.h"
#include "kernels/isa/math-inl.h"

namespace ibid::IBID_ISA {
namespace {

constexpr float kLargestHalf = 65504.0f;

// x ~ scale * q for a row of n floats: the scale, and what x is multiplied by to give q.
struct RowQuantizer {
  float scale;
  float inverse;
};

IBID_INLINE RowQuantizer quantizer_of(const float* x, size_t n) {
  V16 largest = zero();
  for (size_t i = 0; i < n; i += 16) largest = max(abs(load_upto(x + i, n - i)), largest);
  const float top = reduce_max(largest);
  if (!(top >= kTinyBlock)) return {0.0f, 0.0f};
  return {top / 127.0f, 127.0f / top};
}

IBID_INLINE I16 quantize(const float* x, size_t n, float inverse) {
  return to_int(mul(load_upto(x, n), set1(inverse)));
}

IBID_INLINE V16 clamp_to_half(V16 x) {
  return min(set1(kLargestHalf), max(set1(-kLargestHalf), x));
}

void store_f32(const KvHeadBlock& block, std::byte* head, size_t position, const float* k, const float* v) {
  const size_t n = block.head_dim;
  auto* keys = reinterpret_cast<float*>(head + key_order(block).at(position, 0));
  for (size_t d = 0; d < n; ++d) keys[d * kKeyGroup] = k[d];
  auto* values = reinterpret_cast<float*>(head + value_order(block).at(position, 0));
  for (size_t d = 0; d < n; d += 16) store(values + d, load_upto(v + d, n - d));
}

void store_f16(const KvHeadBlock& block, std::byte* head, size_t position, const float* k, const float* v) {
  const size_t n = block.head_dim;
  auto* keys = reinterpret_cast<uint16_t*>(head + key_order(block).at(position, 0));
  auto* values = reinterpret_cast<uint16_t*>(head + value_order(block).at(position, 0));
  for (size_t d = 0; d < n; d += 16) {
    alignas(64) uint16_t halves[16];
    store_f16(halves, clamp_to_half(load_upto(k + d, n - d)));
    for (size_t i = 0; i < 16 && d + i < n; ++i) {
      keys[(d + i) * kKeyGroup] = halves[i];
    }
    store_f16(values + d, clamp_to_half(load_upto(v + d, n - d)));
  }
}

void store_int8(const KvHeadBlock& block, std::byte* head, size_t position, const float* k, const float* v) {
  const size_t n = block.head_dim;
  const RowQuantizer key = quantizer_of(k, n);
  const RowQuantizer value = quantizer_of(v, n);
  reinterpret_cast<float*>(head + block.k_scale)[position] = key.scale;
  reinterpret_cast<float*>(head + block.v_scale)[position] = value.scale;
  std::byte* keys = head + key_order(block).at(position, 0);
  auto* values = reinterpret_cast<int8_t*>(head + value_order(block).at(position, 0));
  for (size_t d = 0; d < n; d += 16) {
    alignas(64) int8_t codes[16];
    // Adding 128 to a byte turns its highest bit, so -128 does as well and fits.
    store_i8(codes, quantize(k + d, n - d, key.inverse));
    for (size_t i = 0; i < 16; ++i) codes[i] = static_cast<int8_t>(codes[i] ^ -128);
    for (size_t i = 0; i < 16 && d + i < block.k_dim; i += 4) {
      __builtin_memcpy(keys + (d + i) * kKeyGroup, codes + i, 4);
    }
    store_i8(codes, quantize(v + d, n - d, value.inverse));
    for (size_t i = 0; i < 16; ++i) values[(d + i) * kValueGroup] = codes[i];
  }
}

[[maybe_unused]]   // by isa_amx.cc
void kv_store(const KvHeadBlock& block, std::byte* head, size_t position, const float* k, const float* v) {
  switch (block.dtype) {
    case KvDType::kF32: return store_f32(block, head, position, k, v);
    case KvDType::kF16: return store_f16(block, head, position, k, v);
    case KvDType::kInt8: return store_int8(block, head, position, k, v);
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
