// The Hadamard transform over 16 lanes. Included after vec_<isa>.h, once per instruction set; hadamard.h has the
// formula, ref_attention.cc the scalar twin.
#pragma once

#include "kernels/layout/hadamard.h"
#include "kernels/simd/math-inl.h"

namespace ibid::IBID_ISA {
namespace {

// +1 where the lane is the first of its pair, -1 where it is the second: [log2(half)].
alignas(64) constexpr float kButterflySigns[4][16] = {
    {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
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

// How many vectors of a block are in registers at once.
constexpr size_t kTransformVectors = kTilePanels > 1 ? 8 : 4;

// The butterflies of 16 * kVectors numbers, and the factor.
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

// A block of whole vectors, more of them than there are registers.
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

}  // namespace
}  // namespace ibid::IBID_ISA
