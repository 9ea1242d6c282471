// Stores one position of a head's keys and values, over 16 lanes. Included after vec_<isa>.h, once per
// instruction set; the scalar reference is ref_kv_rows.cc.
#pragma once

#include "kernels/kernels.h"
#include "kernels/layout/hadamard.h"
#include "kernels/layout/kv_head_block.h"
#include "kernels/simd/math-inl.h"

namespace ibid::IBID_ISA {
namespace {

// --- The Hadamard transform over 16 lanes; kernels/layout/hadamard.h has the formula.

// Indexed by log2(half): +1 if the lane is the first of its pair, -1 if it is the second.
alignas(64) constexpr float kButterflySigns[4][16] = {{1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
                                                      {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
                                                      {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
                                                      {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}};

// The butterflies within a vector. A product by 1 or -1 is exact, so each lane is rounded once.
IBID_INLINE V16 transform_lanes(V16 x) {
  x = fma(x, load(kButterflySigns[0]), swap_lanes<1>(x));
  x = fma(x, load(kButterflySigns[1]), swap_lanes<2>(x));
  x = fma(x, load(kButterflySigns[2]), swap_lanes<4>(x));
  return fma(x, load(kButterflySigns[3]), swap_lanes<8>(x));
}

// Number of vectors of a block that are in registers at once.
constexpr size_t kTransformVectors = kTilePanels > 1 ? 8 : 4;

// Clamps 16 * kVectors numbers, applies the butterflies and multiplies by the factor.
template <size_t kVectors>
IBID_INLINE void transform_registers(float* x, float factor) {
  V16 v[kVectors];
  for (size_t i = 0; i < kVectors; ++i) v[i] = transform_lanes(clip(loadu(x + 16 * i), set1(kHadamardLimit)));
  for (size_t half = 1; half < kVectors; half *= 2) {
    for (size_t i = 0; i < kVectors; ++i) {
      if ((i & half) != 0) continue;
      const V16 a = v[i], b = v[i + half];
      v[i] = add(a, b);
      v[i + half] = sub(a, b);
    }
  }
  for (size_t i = 0; i < kVectors; ++i) storeu(x + 16 * i, mul(v[i], set1(factor)));
}

// Transforms a block that does not fit in registers.
void transform_memory(float* x, size_t block) {
  constexpr size_t kPiece = 16 * kTransformVectors;
  for (size_t i = 0; i < block; i += kPiece) transform_registers<kTransformVectors>(x + i, 1.0f);
  for (size_t half = kPiece; half < block; half *= 2) {
    const V16 last = set1(2 * half == block ? hadamard_factor(block) : 1.0f);
    for (size_t first = 0; first < block; first += 2 * half) {
      for (size_t i = first; i < first + half; i += 16) {
        const V16 a = loadu(x + i), b = loadu(x + i + half);
        storeu(x + i, mul(add(a, b), last));
        storeu(x + i + half, mul(sub(a, b), last));
      }
    }
  }
}

IBID_INLINE void transform_vectors(float* x, size_t block) {
  switch (block) {
    case 16: return transform_registers<1>(x, hadamard_factor(16));
    case 32: return transform_registers<2>(x, hadamard_factor(32));
    case 64: return transform_registers<4>(x, hadamard_factor(64));
    default: break;
  }
  if (block == 16 * kTransformVectors) return transform_registers<kTransformVectors>(x, hadamard_factor(block));
  transform_memory(x, block);
}

void hadamard(float* x, size_t n) {
  for (size_t begin = 0; begin < n;) {
    const size_t block = hadamard_block(n - begin);
    if (block >= 16) {
      transform_vectors(x + begin, block);
    } else {
      transform_block(x + begin, block);
    }
    begin += block;
  }
}

constexpr float kLargestHalf = 65504.0f;

// Quantiser of a row of floats: q = round(x * inverse), x ~ scale * q.
struct RowQuantizer {
  float scale;
  float inverse;
};

IBID_INLINE RowQuantizer quantizer_of(const float* x, size_t n) {
  V16 largest = zero();
  for (size_t i = 0; i < n; i += 16) largest = max(abs(load_upto(x + i, n - i)), largest);
  const float top = reduce_max(largest);
  if (!(top >= kMinBlockMagnitude)) return {0.0f, 0.0f};
  return {top / 127.0f, 127.0f / top};
}

IBID_INLINE I16 quantize(const float* x, size_t n, float inverse) {
  return to_int(mul(load_upto(x, n), set1(inverse)));
}

IBID_INLINE V16 clamp_to_half(V16 x) { return min(set1(kLargestHalf), max(set1(-kLargestHalf), x)); }

void store_key_f32(const KvHeadBlock& block, std::byte* head, size_t position, const float* k) {
  auto* keys = reinterpret_cast<float*>(head + key_order(block).at(position, 0));
  for (size_t d = 0; d < block.head_dim; ++d) keys[d * kKeyGroup] = k[d];
}

void store_value_f32(const KvHeadBlock& block, std::byte* head, size_t position, const float* v) {
  const size_t n = block.head_dim;
  auto* values = reinterpret_cast<float*>(head + value_order(block).at(position, 0));
  for (size_t d = 0; d < n; d += 16) store(values + d, load_upto(v + d, n - d));
}

void store_key_f16(const KvHeadBlock& block, std::byte* head, size_t position, const float* k) {
  const size_t n = block.head_dim;
  auto* keys = reinterpret_cast<uint16_t*>(head + key_order(block).at(position, 0));
  for (size_t d = 0; d < n; d += 16) {
    alignas(64) uint16_t halves[16];
    store_f16(halves, clamp_to_half(load_upto(k + d, n - d)));
    for (size_t i = 0; i < 16 && d + i < n; ++i) {
      keys[(d + i) * kKeyGroup] = halves[i];
    }
  }
}

void store_value_f16(const KvHeadBlock& block, std::byte* head, size_t position, const float* v) {
  const size_t n = block.head_dim;
  auto* values = reinterpret_cast<uint16_t*>(head + value_order(block).at(position, 0));
  for (size_t d = 0; d < n; d += 16) store_f16(values + d, clamp_to_half(load_upto(v + d, n - d)));
}

// Copies n numbers to `to`, which has space for whole vectors, and transforms the first `first` dimensions and the
// remaining ones separately.
IBID_INLINE void rotated_copy(const float* x, size_t n, size_t first, float* to) {
  for (size_t d = 0; d < n; d += 16) store(to + d, load_upto(x + d, n - d));
  hadamard(to, first);
  if (first < n) hadamard(to + first, n - first);
}

// Stores dimensions [begin, end) of a key, which share a scale; begin is a multiple of 16.
void store_key_codes(const KvHeadBlock& block, std::byte* head, size_t position, const float* k, Range dims,
                     float* scale) {
  const size_t n = dims.end;
  const RowQuantizer key = quantizer_of(k + dims.begin, dims.size());
  *scale = key.scale;
  std::byte* keys = head + key_order(block).at(position, 0);
  for (size_t d = dims.begin; d < n; d += 16) {
    alignas(64) int8_t codes[16];
    // Adding 128 to a byte flips its highest bit, and so does xor with -128, which fits an int8_t.
    store_i8(codes, quantize(k + d, n - d, key.inverse));
    for (int8_t& code : codes) code = static_cast<int8_t>(code ^ -128);
    for (size_t i = 0; i < 16 && d + i < block.k_dim; i += 4) {
      __builtin_memcpy(keys + (d + i) * kKeyGroup, codes + i, 4);
    }
  }
}

void store_key_int8(const KvHeadBlock& block, std::byte* head, size_t position, const float* k) {
  float* scale = reinterpret_cast<float*>(head + block.k_scale) + position;
  store_key_codes(block, head, position, k, {0, block.value_dim()}, scale);
  if (!block.is_latent()) return;
  store_key_codes(block, head, position, k, {block.latent_dim, block.head_dim}, scale + kPagePositions);
}

void store_value_int8(const KvHeadBlock& block, std::byte* head, size_t position, const float* v) {
  const size_t n = block.head_dim;
  const RowQuantizer value = quantizer_of(v, n);
  reinterpret_cast<float*>(head + block.v_scale)[position] = value.scale;
  auto* values = reinterpret_cast<int8_t*>(head + value_order(block).at(position, 0));
  for (size_t d = 0; d < n; d += 16) {
    alignas(64) int8_t codes[16];
    store_i8(codes, quantize(v + d, n - d, value.inverse));
    for (size_t i = 0; i < 16; ++i) values[(d + i) * kValueGroup] = codes[i];
  }
}

// A float rounded to a half: the half's bits and value.
struct Half {
  uint16_t bits;
  float value;
};

IBID_INLINE Half to_half(float x) {
  alignas(64) uint16_t halves[16];
  alignas(64) float floats[16];
  store_f16(halves, clamp_to_half(set1(x)));
  store(floats, load_f16(halves));
  return {halves[0], floats[0]};
}

// Clamps the extreme (minimum or maximum) of a group to the range of a half, and replaces -0 by 0.
IBID_INLINE float clamp_bound(float x) {
  return (x < -kLargestHalf ? -kLargestHalf : x > kLargestHalf ? kLargestHalf : x) + 0.0f;
}

// Stores a row of keys, or of values, in 4 bits. x has space for whole groups; the padding after head_dim is
// overwritten.
void store_int4(const KvHeadBlock& block, const KvPartOrder& order, std::byte* head, size_t scales_at, size_t position,
                float* x) {
  auto* scales = reinterpret_cast<uint16_t*>(head + scales_at);
  const size_t n = block.head_dim, partner = size_t{1} << order.pair_bit;
  for (size_t d = n; d < block.nibble_groups() * kNibbleGroup; ++d) x[d] = x[n - 1];  // keeps minimum and maximum
  for (size_t group = 0; group < block.nibble_groups(); ++group) {
    const size_t first = group * kNibbleGroup;
    const V16 a = load(x + first), b = load(x + first + 16);
    const V16 lows = max(neg(a), neg(b)), highs = max(a, b);
    const float lowest = clamp_bound(-reduce_max(lows)), highest = clamp_bound(reduce_max(highs));
    const Half minimum = to_half(lowest), scale = to_half((highest - lowest) / 15.0f);
    scales[nibble_scale(group, position)] = scale.bits;
    scales[nibble_scale(group, position) + kPagePositions] = minimum.bits;
    const V16 inverse = set1(scale.value > 0 ? 1.0f / scale.value : 0.0f);
    alignas(64) int8_t codes[kNibbleGroup];
    for (size_t i = 0; i < kNibbleGroup; i += 16) {
      const V16 code = mul(sub(load(x + first + i), set1(minimum.value)), inverse);
      store_i8(codes + i, to_int(min(set1(15.0f), max(zero(), code))));
    }
    for (size_t d = 0; d < kNibbleGroup; ++d) {
      if ((d & partner) != 0) continue;
      const int low = first + d < n ? codes[d] : 0, high = first + d + partner < n ? codes[d + partner] : 0;
      head[order.at(position, first + d)] = static_cast<std::byte>(low | high << 4);
    }
  }
}

void store_key(const KvHeadBlock& block, std::byte* head, size_t position, const float* k, float* rotated) {
  switch (block.keys()) {
    case KvNumberFormat::kF32: return store_key_f32(block, head, position, k);
    case KvNumberFormat::kF16: return store_key_f16(block, head, position, k);
    case KvNumberFormat::kInt8: return store_key_int8(block, head, position, rotated);
    case KvNumberFormat::kInt4: return store_int4(block, key_order(block), head, block.k_scale, position, rotated);
  }
}

void store_value(const KvHeadBlock& block, std::byte* head, size_t position, const float* v, float* rotated) {
  switch (block.values()) {
    case KvNumberFormat::kF32: return store_value_f32(block, head, position, v);
    case KvNumberFormat::kF16: return store_value_f16(block, head, position, v);
    case KvNumberFormat::kInt8: return store_value_int8(block, head, position, rotated);
    case KvNumberFormat::kInt4: return store_int4(block, value_order(block), head, block.v_scale, position, rotated);
  }
}

[[maybe_unused]]   // isa_amx.cc does not call this function
void kv_store(const KvHeadBlock& block, std::byte* head, size_t position, const float* k, const float* v) {
  alignas(64) float rotated[kMaxHeadDim];
  if (is_coded(block.keys())) rotated_copy(k, block.head_dim, block.value_dim(), rotated);
  store_key(block, head, position, k, rotated);
  if (block.is_latent()) return;
  if (is_coded(block.values())) rotated_copy(v, block.head_dim, block.head_dim, rotated);
  store_value(block, head, position, v, rotated);
}

}  // namespace
}  // namespace ibid::IBID_ISA
