// Vectors of 16 lanes on AVX-512: one zmm register. Included by isa_avx512_vnni.cc and isa_amx.cc. vec_avx2.h must have
// the same operations with bit-identical results, because the kernel bodies (*-inl.h) are written once for both.
//   V16   16 floats        I16   16 int32        B64   64 bytes: 16 lanes of 4
//   M16   16 booleans
// max and min are those of x86: max(a, b) is a > b ? a : b, so b if they are equal or one is NaN. All functions have
// internal linkage: the linker must never choose a copy compiled for AVX-512 for the rest of the program.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define IBID_ISA avx512
#define IBID_INLINE [[gnu::always_inline, maybe_unused]] inline

namespace ibid::IBID_ISA {
namespace {

struct V16 {
  __m512 v;
};
struct I16 {
  __m512i v;
};
struct B64 {
  __m512i v;
};
struct M16 {
  __mmask16 m;
};

// Register tiles: kTilePanels vectors of 16 columns by kTileRows rows, 16 accumulators (gcc 12 spills at 24). Linear
// layers use two panels by eight rows, because two unpacked panels of 576 columns stay in L1 and four do not.
constexpr size_t kTilePanels = 4;
constexpr size_t kTileRows = 4;
constexpr size_t kSoftmaxRows = 4;  // number of rows whose softmax is computed together
constexpr size_t kLinearPanels = 2;
constexpr size_t kLinearRows = 8;

// --- floats
IBID_INLINE V16 zero() { return {_mm512_setzero_ps()}; }
IBID_INLINE V16 set1(float x) { return {_mm512_set1_ps(x)}; }
IBID_INLINE V16 load(const float* p) { return {_mm512_load_ps(p)}; }    // 64-byte aligned
IBID_INLINE V16 loadu(const float* p) { return {_mm512_loadu_ps(p)}; }  // any alignment
IBID_INLINE void store(float* p, V16 a) { _mm512_store_ps(p, a.v); }
IBID_INLINE void storeu(float* p, V16 a) { _mm512_storeu_ps(p, a.v); }
// load_first() and store_first() access the first n <= 16 lanes. load_first() zeroes the other lanes; the memory of the
// other lanes is not accessed.
IBID_INLINE __mmask16 first_lanes(size_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
IBID_INLINE V16 load_first(const float* p, size_t n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
IBID_INLINE void store_first(float* p, V16 a, size_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }

IBID_INLINE V16 add(V16 a, V16 b) { return {_mm512_add_ps(a.v, b.v)}; }
IBID_INLINE V16 sub(V16 a, V16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
IBID_INLINE V16 mul(V16 a, V16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
IBID_INLINE V16 div(V16 a, V16 b) { return {_mm512_div_ps(a.v, b.v)}; }
IBID_INLINE V16 sqrt(V16 a) { return {_mm512_sqrt_ps(a.v)}; }
IBID_INLINE V16 max(V16 a, V16 b) { return {_mm512_max_ps(a.v, b.v)}; }
IBID_INLINE V16 min(V16 a, V16 b) { return {_mm512_min_ps(a.v, b.v)}; }
IBID_INLINE V16 fma(V16 a, V16 b, V16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }  // a b + c
IBID_INLINE V16 abs(V16 a) { return {_mm512_abs_ps(a.v)}; }
IBID_INLINE V16 neg(V16 a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
// Clamps a to +-limit: the smaller magnitude, with a's sign. REQUIRES: limit > 0.
IBID_INLINE V16 clip(V16 a, V16 limit) { return {_mm512_range_ps(a.v, limit.v, 2)}; }
// Swaps lanes at kDistance (1, 2, 4 or 8): lane i gets lane i ^ kDistance.
template <int kDistance>
IBID_INLINE V16 swap_lanes(V16 a) {
  if constexpr (kDistance == 1) return {_mm512_permute_ps(a.v, 0xb1)};
  if constexpr (kDistance == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  if constexpr (kDistance == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
  if constexpr (kDistance == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
}

// --- comparisons and choice
IBID_INLINE M16 less(V16 a, V16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
IBID_INLINE M16 equal(V16 a, V16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
// Returns a mask with lanes [begin, end) set; begin <= end <= 16.
IBID_INLINE M16 lane_range(size_t begin, size_t end) {
  return {static_cast<__mmask16>(first_lanes(end) & ~first_lanes(begin))};
}
IBID_INLINE V16 select(M16 m, V16 yes, V16 no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }

// --- integers
IBID_INLINE I16 set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
IBID_INLINE I16 load(const int32_t* p) { return {_mm512_load_si512(p)}; }
IBID_INLINE void store(int32_t* p, I16 a) { _mm512_store_si512(p, a.v); }
IBID_INLINE I16 add(I16 a, I16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
IBID_INLINE I16 sub(I16 a, I16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
IBID_INLINE I16 bit_and(I16 a, I16 b) { return {_mm512_and_si512(a.v, b.v)}; }
template <int kBits>
IBID_INLINE I16 shift_left(I16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
IBID_INLINE I16 shift_right(I16 a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}  // arithmetic shift
IBID_INLINE V16 to_float(I16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
IBID_INLINE I16 to_int(V16 a) { return {_mm512_cvtps_epi32(a.v)}; }  // ties to even
IBID_INLINE V16 as_float(I16 a) { return {_mm512_castsi512_ps(a.v)}; }
IBID_INLINE I16 as_int(V16 a) { return {_mm512_castps_si512(a.v)}; }

// --- narrow types in memory, any alignment
IBID_INLINE V16 load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
IBID_INLINE void store_f16(uint16_t* p, V16 a) {  // ties to even
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
IBID_INLINE V16 load_bf16(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
// Load 16 8-bit floats. E5M2: their values; E4M3: 2^-8 of their values (kernels/layout/panel.h).
IBID_INLINE V16 load_e5m2(const uint8_t* p) {
  const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm512_cvtph_ps(_mm256_slli_epi16(bytes, 8))};
}
IBID_INLINE V16 load_e4m3(const uint8_t* p) {
  // The bytes are sign-extended, so the shift by 7 leaves the sign in bits 15 and 14; bit 14 belongs to the exponent
  // and is cleared.
  const __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i fields = _mm256_and_si256(_mm256_slli_epi16(bytes, 7), _mm256_set1_epi16(static_cast<short>(0xbfff)));
  return {_mm512_cvtph_ps(fields)};
}
IBID_INLINE I16 load_i8(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
IBID_INLINE void store_i8(int8_t* p, I16 a) {  // lanes: -128..127
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}

// Stores the high and the low bytes of the 64 numbers of a, 0..65535.
IBID_INLINE void store_code_bytes(uint8_t* high, uint8_t* low, const I16 (&a)[4]) {
  // Packing works within 128-bit quarters; the shuffle moves the low bytes of a quarter's eight numbers before the high
  // bytes. The 32-bit words then alternate between a[0] and a[1], or a[2] and a[3], and a permutation sorts them.
  const __m512i apart = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
  const __m512i first = _mm512_shuffle_epi8(_mm512_packus_epi32(a[0].v, a[1].v), apart);
  const __m512i second = _mm512_shuffle_epi8(_mm512_packus_epi32(a[2].v, a[3].v), apart);
  const __m512i lows = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 16, 20, 24, 28, 17, 21, 25, 29);
  const __m512i highs = _mm512_add_epi32(lows, _mm512_set1_epi32(2));
  _mm512_storeu_si512(high, _mm512_permutex2var_epi32(first, highs, second));
  _mm512_storeu_si512(low, _mm512_permutex2var_epi32(first, lows, second));
}

// --- bytes
IBID_INLINE B64 load_bytes(const void* p) { return {_mm512_load_si512(p)}; }  // 64-byte aligned
IBID_INLINE void store_bytes(void* p, B64 a) { _mm512_store_si512(p, a.v); }
// Broadcasts the 4 bytes at p to every lane.
IBID_INLINE B64 spread4(const void* p) {
  int32_t word = 0;
  __builtin_memcpy(&word, p, 4);
  return {_mm512_set1_epi32(word)};
}
IBID_INLINE B64 low_nibbles(B64 a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))}; }
IBID_INLINE B64 high_nibbles(B64 a) { return {_mm512_and_si512(_mm512_srli_epi16(a.v, 4), _mm512_set1_epi8(15))}; }
// Looks up each byte of a in the 16 bytes of the same quarter of `table`. REQUIRES: bytes of a are below 16.
IBID_INLINE B64 look_up(B64 table, B64 a) { return {_mm512_shuffle_epi8(table.v, a.v)}; }
IBID_INLINE B64 add_bytes(B64 a, int x) { return {_mm512_add_epi8(a.v, _mm512_set1_epi8(static_cast<char>(x)))}; }
// Sets bit 4 of every byte of a to bit kBit of that byte of `bits`. REQUIRES: bytes of a are below 16.
template <int kBit>
IBID_INLINE B64 with_fifth_bit(B64 a, B64 bits) {
  __m512i placed = bits.v;
  if constexpr (kBit < 4) placed = _mm512_slli_epi16(bits.v, 4 - kBit);
  if constexpr (kBit > 4) placed = _mm512_srli_epi16(bits.v, kBit - 4);
  // (placed & 16) | a in one operation
  return {_mm512_ternarylogic_epi32(placed, _mm512_set1_epi8(16), a.v, 0xea)};
}

// Extracts bits 2 kPair and 2 kPair + 1 of every byte.
template <int kPair>
IBID_INLINE B64 bit_pair(B64 a) {
  const __m512i placed = kPair == 0 ? a.v : _mm512_srli_epi16(a.v, 2 * kPair);
  return {_mm512_and_si512(placed, _mm512_set1_epi8(3))};
}
// Sets bits 4 and 5 of every byte of a to bits 2 kPair and 2 kPair + 1 of `bits`. REQUIRES: bytes of a are below 16.
template <int kPair>
IBID_INLINE B64 with_high_bits(B64 a, B64 bits) {
  __m512i placed = bits.v;
  if constexpr (kPair < 2) placed = _mm512_slli_epi16(bits.v, 4 - 2 * kPair);
  if constexpr (kPair > 2) placed = _mm512_srli_epi16(bits.v, 2 * kPair - 4);
  return {_mm512_ternarylogic_epi32(placed, _mm512_set1_epi8(48), a.v, 0xea)};
}

// Returns acc + the sum of 4 products per lane, unsigned codes times signed x, exactly.
IBID_INLINE I16 dot4_small(I16 acc, B64 codes, B64 x) {  // codes <= 127
  return {_mm512_dpbusd_epi32(acc.v, codes.v, x.v)};
}
// Returns acc + the sum of 4 products per lane, exactly, for any unsigned codes and any signed x.
IBID_INLINE I16 dot4_unsigned(I16 acc, B64 codes, B64 x) { return dot4_small(acc, codes, x); }
// dot4_offset128() sums 4 products per lane, exactly, for codes stored as code + 128 and x in -127..127. If
// kDotNeedsOffset, the accumulator must start at -128 * sum of x; else at 0, and the operation subtracts the offset
// itself.
constexpr bool kDotNeedsOffset = true;
IBID_INLINE I16 dot4_offset128(I16 acc, B64 codes, B64 x) { return dot4_small(acc, codes, x); }

// --- all lanes; sums are in the order of reduce_add16 (kernels/reference/ref.h)
IBID_INLINE float reduce_add(V16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
IBID_INLINE float reduce_max(V16 a) {  // REQUIRES: no NaN
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
IBID_INLINE int32_t reduce_add(I16 a) {
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti64x4_epi64(a.v, 1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

// Prevents the compiler from keeping the memory at p in registers across this point.
IBID_INLINE void keep_in_memory(void* p) { asm volatile("" : : "r"(p) : "memory"); }
IBID_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
IBID_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
// Fetches the cache line of p in order to write it. Processors without the instruction (Haswell) do nothing.
IBID_INLINE void prefetch_to_write(const float* p) { asm volatile("prefetchw %0" : : "m"(*p)); }

}  // namespace
}  // namespace ibid::IBID_ISA
