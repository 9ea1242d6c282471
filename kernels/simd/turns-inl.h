// Small matrices turned in registers of 128 bits, the same on every instruction set of x86. Included behind vec_*.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace ibid::IBID_ISA {
namespace {

// Four rows of four 32-bit numbers; rows are `from_stride` and `to_stride` apart, in numbers.
IBID_INLINE void turn4x4(const float* from, size_t from_stride, float* to, size_t to_stride) {
  __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_stride);
  __m128 c = _mm_loadu_ps(from + 2 * from_stride), d = _mm_loadu_ps(from + 3 * from_stride);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a);
  _mm_storeu_ps(to + to_stride, b);
  _mm_storeu_ps(to + 2 * to_stride, c);
  _mm_storeu_ps(to + 3 * to_stride, d);
}

// Eight rows of eight 16-bit numbers: three rounds in which row i meets row i + 4.
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

// Sixteen bytes, a row of four by four.
IBID_INLINE __m128i turn_bytes(__m128i x) {
  return _mm_shuffle_epi8(x, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}
IBID_INLINE __m128i load16(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
IBID_INLINE void store16(std::byte* to, __m128i x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x); }

}  // namespace
}  // namespace ibid::IBID_ISA
