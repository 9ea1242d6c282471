// Vectors of 16 lanes on AVX2, FMA and F16C: two ymm registers, lanes 0..7 and 8..15. Included by isa_avx2.cc, and by
// isa_avxvnni.cc, which uses AVX-VNNI for byte products. The operations have the names of those in vec_avx512.h, which
// documents them, and bit-identical results.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#ifdef __AVXVNNI__
#define IBID_ISA avxvnni
#else
#define IBID_ISA avx2
#endif
#define IBID_INLINE [[gnu::always_inline, maybe_unused]] inline

namespace ibid::IBID_ISA {
namespace {

struct V16 {
  __m256 a, b;
};
struct I16 {
  __m256i a, b;
};
struct B64 {
  __m256i a, b;
};
struct M16 {
  __m256 a, b;
};

// A register tile has one panel of 16 columns and 4 input rows: 8 of the 16 registers are accumulators.
constexpr size_t kTilePanels = 1;
constexpr size_t kTileRows = 4;
constexpr size_t kSoftmaxRows = 1;  // number of rows whose softmax is computed together
constexpr size_t kLinearPanels = kTilePanels;
constexpr size_t kLinearRows = kTileRows;

// --- floats
IBID_INLINE V16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
IBID_INLINE V16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
IBID_INLINE V16 load(const float* p) { return {_mm256_load_ps(p), _mm256_load_ps(p + 8)}; }
IBID_INLINE V16 loadu(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
IBID_INLINE void store(float* p, V16 x) {
  _mm256_store_ps(p, x.a);
  _mm256_store_ps(p + 8, x.b);
}
IBID_INLINE void storeu(float* p, V16 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
// Returns a mask with lanes [begin, end) set.
IBID_INLINE M16 lane_range(size_t begin, size_t end) {
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  const __m256i from = _mm256_set1_epi32(static_cast<int>(begin));
  const __m256i to = _mm256_set1_epi32(static_cast<int>(end));
  return {_mm256_castsi256_ps(_mm256_andnot_si256(_mm256_cmpgt_epi32(from, low), _mm256_cmpgt_epi32(to, low))),
          _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_cmpgt_epi32(from, high), _mm256_cmpgt_epi32(to, high)))};
}
IBID_INLINE V16 load_first(const float* p, size_t n) {
  const M16 m = lane_range(0, n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.a)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
}
IBID_INLINE void store_first(float* p, V16 x, size_t n) {
  const M16 m = lane_range(0, n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), x.a);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), x.b);
}

IBID_INLINE V16 add(V16 x, V16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
IBID_INLINE V16 sub(V16 x, V16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
IBID_INLINE V16 mul(V16 x, V16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
IBID_INLINE V16 div(V16 x, V16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
IBID_INLINE V16 sqrt(V16 x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
IBID_INLINE V16 max(V16 x, V16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
IBID_INLINE V16 min(V16 x, V16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
IBID_INLINE V16 fma(V16 x, V16 y, V16 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
IBID_INLINE V16 abs(V16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
IBID_INLINE V16 neg(V16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}
IBID_INLINE V16 clip(V16 x, V16 limit) { return min(limit, max(neg(limit), x)); }
template <int kDistance>
IBID_INLINE V16 swap_lanes(V16 x) {
  if constexpr (kDistance == 1) return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
  if constexpr (kDistance == 2) return {_mm256_permute_ps(x.a, 0x4e), _mm256_permute_ps(x.b, 0x4e)};
  if constexpr (kDistance == 4) return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
  if constexpr (kDistance == 8) return {x.b, x.a};
}

// --- comparisons and choice
IBID_INLINE M16 less(V16 x, V16 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
IBID_INLINE M16 equal(V16 x, V16 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)};
}
IBID_INLINE V16 select(M16 m, V16 yes, V16 no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}

// --- integers
IBID_INLINE I16 set1(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
IBID_INLINE I16 load(const int32_t* p) {
  const auto* at = reinterpret_cast<const __m256i*>(p);
  return {_mm256_load_si256(at), _mm256_load_si256(at + 1)};
}
IBID_INLINE void store(int32_t* p, I16 x) {
  auto* at = reinterpret_cast<__m256i*>(p);
  _mm256_store_si256(at, x.a);
  _mm256_store_si256(at + 1, x.b);
}
IBID_INLINE I16 add(I16 x, I16 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
IBID_INLINE I16 sub(I16 x, I16 y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
IBID_INLINE I16 bit_and(I16 x, I16 y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
template <int kBits>
IBID_INLINE I16 shift_left(I16 x) {
  return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
template <int kBits>
IBID_INLINE I16 shift_right(I16 x) {
  return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)};
}
IBID_INLINE V16 to_float(I16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
IBID_INLINE I16 to_int(V16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
IBID_INLINE V16 as_float(I16 x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
IBID_INLINE I16 as_int(V16 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }

// --- narrow types in memory
IBID_INLINE V16 load_f16(const uint16_t* p) {
  const auto* at = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
IBID_INLINE void store_f16(uint16_t* p, V16 x) {
  auto* at = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(at, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(at + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
IBID_INLINE V16 load_bf16(const uint16_t* p) {
  const auto* at = reinterpret_cast<const __m128i*>(p);
  const __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128(at));
  const __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128(at + 1));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
}
IBID_INLINE V16 from_halves(__m256i halves) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
IBID_INLINE V16 load_e5m2(const uint8_t* p) {
  const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return from_halves(_mm256_slli_epi16(bytes, 8));
}
IBID_INLINE V16 load_e4m3(const uint8_t* p) {
  const __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return from_halves(_mm256_and_si256(_mm256_slli_epi16(bytes, 7), _mm256_set1_epi16(static_cast<short>(0xbfff))));
}
IBID_INLINE I16 load_i8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
IBID_INLINE void store_i8(int8_t* p, I16 x) {
  // The pack instructions work on 128-bit halves; the permutation restores the order.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

IBID_INLINE void store_u8(uint8_t* p, I16 x) {  // lanes: 0..255
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
// Stores the high and the low bytes of the 64 numbers of x, 0..65535.
IBID_INLINE void store_code_bytes(uint8_t* high, uint8_t* low, const I16 (&x)[4]) {
  for (size_t i = 0; i < 4; ++i) {
    store_u8(high + 16 * i, shift_right<8>(x[i]));
    store_u8(low + 16 * i, bit_and(x[i], set1(int32_t{255})));
  }
}

// --- bytes
IBID_INLINE B64 load_bytes(const void* p) {
  const auto* at = static_cast<const __m256i*>(p);
  return {_mm256_load_si256(at), _mm256_load_si256(at + 1)};
}
IBID_INLINE void store_bytes(void* p, B64 x) {
  auto* at = static_cast<__m256i*>(p);
  _mm256_store_si256(at, x.a);
  _mm256_store_si256(at + 1, x.b);
}
IBID_INLINE B64 spread4(const void* p) {
  int32_t word = 0;
  __builtin_memcpy(&word, p, 4);
  return {_mm256_set1_epi32(word), _mm256_set1_epi32(word)};
}
IBID_INLINE B64 low_nibbles(B64 x) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
IBID_INLINE B64 high_nibbles(B64 x) { return low_nibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)}); }
IBID_INLINE B64 look_up(B64 table, B64 x) {
  return {_mm256_shuffle_epi8(table.a, x.a), _mm256_shuffle_epi8(table.b, x.b)};
}
IBID_INLINE B64 add_bytes(B64 x, int y) {
  const __m256i addend = _mm256_set1_epi8(static_cast<char>(y));
  return {_mm256_add_epi8(x.a, addend), _mm256_add_epi8(x.b, addend)};
}
template <int kBit>
IBID_INLINE __m256i fifth_bit(__m256i codes, __m256i bits) {
  __m256i placed = bits;
  if constexpr (kBit < 4) placed = _mm256_slli_epi16(bits, 4 - kBit);
  if constexpr (kBit > 4) placed = _mm256_srli_epi16(bits, kBit - 4);
  return _mm256_or_si256(codes, _mm256_and_si256(placed, _mm256_set1_epi8(16)));
}
template <int kBit>
IBID_INLINE B64 with_fifth_bit(B64 x, B64 bits) {
  return {fifth_bit<kBit>(x.a, bits.a), fifth_bit<kBit>(x.b, bits.b)};
}

template <int kPair>
IBID_INLINE __m256i pair_of(__m256i x) {
  const __m256i placed = kPair == 0 ? x : _mm256_srli_epi16(x, 2 * kPair);
  return _mm256_and_si256(placed, _mm256_set1_epi8(3));
}
template <int kPair>
IBID_INLINE B64 bit_pair(B64 x) {
  return {pair_of<kPair>(x.a), pair_of<kPair>(x.b)};
}
template <int kPair>
IBID_INLINE __m256i high_bits(__m256i x, __m256i bits) {
  __m256i placed = bits;
  if constexpr (kPair < 2) placed = _mm256_slli_epi16(bits, 4 - 2 * kPair);
  if constexpr (kPair > 2) placed = _mm256_srli_epi16(bits, 2 * kPair - 4);
  return _mm256_or_si256(_mm256_and_si256(placed, _mm256_set1_epi8(48)), x);
}
template <int kPair>
IBID_INLINE B64 with_high_bits(B64 x, B64 bits) {
  return {high_bits<kPair>(x.a, bits.a), high_bits<kPair>(x.b, bits.b)};
}

#ifdef __AVXVNNI__
IBID_INLINE I16 dot4_small(I16 acc, B64 codes, B64 x) {
  return {_mm256_dpbusd_avx_epi32(acc.a, codes.a, x.a), _mm256_dpbusd_avx_epi32(acc.b, codes.b, x.b)};
}
IBID_INLINE I16 dot4_unsigned(I16 acc, B64 codes, B64 x) { return dot4_small(acc, codes, x); }
constexpr bool kDotNeedsOffset = true;
IBID_INLINE I16 dot4_offset128(I16 acc, B64 codes, B64 x) { return dot4_small(acc, codes, x); }
#else
// vpmaddubsw saturates sums of two products at 16 bits; 2 * 127 * 127 fits.
IBID_INLINE __m256i dot4_half(__m256i acc, __m256i codes, __m256i x) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1)));
}
IBID_INLINE I16 dot4_small(I16 acc, B64 codes, B64 x) {
  return {dot4_half(acc.a, codes.a, x.a), dot4_half(acc.b, codes.b, x.b)};
}
// Multiplies any u8 by any s8: even and odd bytes as 16-bit words, so that products and sums of two are exact.
IBID_INLINE __m256i dot4_words(__m256i acc, __m256i codes, __m256i x) {
  const __m256i even =
      _mm256_madd_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(codes, 8), _mm256_srai_epi16(x, 8));
  return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
}
IBID_INLINE I16 dot4_unsigned(I16 acc, B64 codes, B64 x) {
  return {dot4_words(acc.a, codes.a, x.a), dot4_words(acc.b, codes.b, x.b)};
}
// Sums of products with codes up to 255 would saturate. So the offset of 128 is removed first, and |code| is multiplied
// by x times the code's sign: 2 * 128 * 127 fits, |-128| is 128 as an unsigned byte, and x is never -128.
constexpr bool kDotNeedsOffset = false;
IBID_INLINE __m256i dot4_signed_half(__m256i acc, __m256i codes, __m256i x) {
  const __m256i code = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
  return dot4_half(acc, _mm256_abs_epi8(code), _mm256_sign_epi8(x, code));
}
IBID_INLINE I16 dot4_offset128(I16 acc, B64 codes, B64 x) {
  return {dot4_signed_half(acc.a, codes.a, x.a), dot4_signed_half(acc.b, codes.b, x.b)};
}
#endif

// --- all lanes
IBID_INLINE float reduce_add(V16 x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
IBID_INLINE float reduce_max(V16 x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
IBID_INLINE int32_t reduce_add(I16 x) {
  const __m256i eight = _mm256_add_epi32(x.a, x.b);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

IBID_INLINE void keep_in_memory(void* p) { asm volatile("" : : "r"(p) : "memory"); }
IBID_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
IBID_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
// Fetches the cache line of p in order to write it. Processors without the instruction (Haswell) do nothing.
IBID_INLINE void prefetch_to_write(const float* p) { asm volatile("prefetchw %0" : : "m"(*p)); }

}  // namespace
}  // namespace ibid::IBID_ISA
