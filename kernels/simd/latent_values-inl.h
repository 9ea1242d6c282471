// Transposes the values of latent rows to the layout of V. The stored row is a key, with 16 positions adjacent, but
// sums of values need adjacent dimensions. All query heads read the same row, so all of them use one transposed block.
// Included once per instruction set; the scalar reference is in kernels/reference/ref_kv_rows.cc.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/layout/kv_head_block.h"

namespace ibid::IBID_ISA {
namespace {

// --- Transposition of small matrices in 128-bit registers, the same for every instruction set of x86.

// Transposes four rows of four 32-bit numbers; strides are in numbers.
IBID_INLINE void transpose4x4(const float* from, size_t from_stride, float* to, size_t to_stride) {
  __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_stride);
  __m128 c = _mm_loadu_ps(from + 2 * from_stride), d = _mm_loadu_ps(from + 3 * from_stride);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a);
  _mm_storeu_ps(to + to_stride, b);
  _mm_storeu_ps(to + 2 * to_stride, c);
  _mm_storeu_ps(to + 3 * to_stride, d);
}

// Transposes eight rows of eight 16-bit numbers, in three rounds that interleave row i with row i + 4.
IBID_INLINE void turn8x8(const uint16_t* from, size_t from_stride, uint16_t* to, size_t to_stride) {
  __m128i rows[8], next[8];
  for (size_t i = 0; i < 8; ++i) rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_stride));
  for (size_t round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 4; ++i) {
      next[2 * i] = _mm_unpacklo_epi16(rows[i], rows[i + 4]);
      next[2 * i + 1] = _mm_unpackhi_epi16(rows[i], rows[i + 4]);
    }
    for (size_t i = 0; i < 8; ++i) rows[i] = next[i];
  }
  for (size_t i = 0; i < 8; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * to_stride), rows[i]);
}

// Transposes a 4 x 4 matrix of bytes.
IBID_INLINE __m128i turn_bytes(__m128i x) {
  return _mm_shuffle_epi8(x, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}
IBID_INLINE __m128i load16(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
IBID_INLINE void store16(std::byte* to, __m128i x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x); }

constexpr size_t kPageGroups = kPagePositions / kKeyGroup;
constexpr size_t kValueGroupsPerKeyGroup = kKeyGroup / kValueGroup;  // groups of four positions per group of sixteen

void turn_floats(const KvHeadBlock& block, const float* keys, float* values) {
  for (size_t group = 0; group < kPageGroups; ++group, keys += block.head_dim * kKeyGroup) {
    for (size_t p = 0; p < kKeyGroup; p += 4) {
      float* to = values + (group * kKeyGroup + p) * block.v_dim;
      for (size_t d = 0; d < block.v_dim; d += 4)
        transpose4x4(keys + d * kKeyGroup + p, kKeyGroup, to + d, block.v_dim);
    }
  }
}

void turn_halves(const KvHeadBlock& block, const uint16_t* keys, uint16_t* values) {
  for (size_t group = 0; group < kPageGroups; ++group, keys += block.head_dim * kKeyGroup) {
    for (size_t p = 0; p < kKeyGroup; p += 8) {
      uint16_t* to = values + (group * kKeyGroup + p) * block.v_dim;
      for (size_t d = 0; d < block.v_dim; d += 8) turn8x8(keys + d * kKeyGroup + p, kKeyGroup, to + d, block.v_dim);
    }
  }
}

// Transposes INT8 codes. Four dimensions of four positions are 16 bytes in both layouts. Keys have the highest bit
// flipped.
void transpose_codes(const KvHeadBlock& block, const std::byte* keys, std::byte* values) {
  const __m128i highest = _mm_set1_epi8(-128);
  for (size_t group = 0; group < kPageGroups; ++group, keys += block.k_dim * kKeyGroup) {
    for (size_t d = 0; d < block.v_dim; d += 4) {
      for (size_t j = 0; j < kValueGroupsPerKeyGroup; ++j) {
        const __m128i code = turn_bytes(load16(keys + d * kKeyGroup + 16 * j));
        store16(values + ((group * kValueGroupsPerKeyGroup + j) * block.v_dim + d) * kValueGroup,
                _mm_xor_si128(code, highest));
      }
    }
  }
}

// Transposes INT4 codes. A byte of keys holds dimensions d and d + 4, a byte of values d and d + 16. So two bytes of
// keys that are 16 dimensions apart give two bytes of values.
void turn_nibbles(const KvHeadBlock& block, const std::byte* keys, std::byte* values) {
  const __m128i low = _mm_set1_epi8(15), high = _mm_set1_epi8(-16);
  const size_t key_group = block.k_dim / 2 * kKeyGroup, value_group = block.value_groups() * 64;
  for (size_t group = 0; group < kPageGroups; ++group, keys += key_group) {
    for (size_t d = 0; d < block.v_dim; d += 8) {
      if (d % kNibbleGroup >= 16) continue;
      const std::byte* from = keys + d / 2 * kKeyGroup;
      const size_t to = d / kNibbleGroup * 64 + d % kNibbleGroup * kValueGroup;
      for (size_t j = 0; j < kValueGroupsPerKeyGroup; ++j) {
        const __m128i a = load16(from + 16 * j), b = load16(from + 8 * kKeyGroup + 16 * j);
        const __m128i first = _mm_or_si128(_mm_and_si128(a, low), _mm_slli_epi16(_mm_and_si128(b, low), 4));
        const __m128i second = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(a, 4), low), _mm_and_si128(b, high));
        std::byte* out = values + (group * kValueGroupsPerKeyGroup + j) * value_group + to;
        store16(out, turn_bytes(first));
        store16(out + 16, turn_bytes(second));
      }
    }
  }
}

[[maybe_unused]]   // isa_amx.cc does not call this function
void latent_values(const KvHeadBlock& block, const std::byte* head, std::byte* values) {
  const std::byte* keys = head + block.k;
  switch (block.keys()) {
    case KvNumberFormat::kF32:
      return turn_floats(block, reinterpret_cast<const float*>(keys), reinterpret_cast<float*>(values));
    case KvNumberFormat::kF16:
      return turn_halves(block, reinterpret_cast<const uint16_t*>(keys), reinterpret_cast<uint16_t*>(values));
    case KvNumberFormat::kInt8: return transpose_codes(block, keys, values);
    case KvNumberFormat::kInt4: return turn_nibbles(block, keys, values);
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
