// AMX tile registers (Intel SDM, volume 1, chapter 18): the few operations that the bodies need. Included by
// isa_amx.cc only. The compiler does not know what they read and write in memory, so each says that it may be
// anything; vectors stay in registers across them.
//
//   tmm0, tmm1   16 rows of the left operand, int8 [16][columns]
//   tmm2, tmm3   the right operand, int8 [columns / 4][16 outputs][4]
//   tmm4, tmm5   sums, int32 [16][16]
// Two of each, so that one product's operands are loaded and another's sums are stored while a third is under way.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ibid::IBID_ISA {
namespace {

// Tiles are configured for as long as it lives; the columns of one product are 64, 32 or 16.
class TileScope {
 public:
  explicit TileScope(size_t columns) {
    const auto wide = static_cast<uint16_t>(columns);
    const auto deep = static_cast<uint8_t>(columns / 4);
    const Config config{.palette = 1,
                        .start_row = 0,
                        .reserved = {},
                        .row_bytes = {wide, wide, 64, 64, 64, 64},
                        .rows = {16, 16, deep, deep, 16, 16}};
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~TileScope() { asm volatile("tilerelease"); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  struct alignas(64) Config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  static_assert(sizeof(Config) == 64);
};

// The three steps of a product, on registers kTurn (0 or 1) of each kind. Of 16 rows of x, x_stride bytes apart, and 16
// outputs: sums[r][i] = sum over the scope's columns k of x[r][k] w[k][i].
template <int kTurn>
IBID_INLINE void tile_load(const int8_t* x, size_t x_stride, const int8_t* w) {
  constexpr size_t kLine = 64;
  if constexpr (kTurn == 0) {
    asm volatile("tileloadd (%0,%1,1), %%tmm0\n\ttileloadd (%2,%3,1), %%tmm2"
                 :
                 : "r"(x), "r"(x_stride), "r"(w), "r"(kLine)
                 : "memory");
  } else {
    asm volatile("tileloadd (%0,%1,1), %%tmm1\n\ttileloadd (%2,%3,1), %%tmm3"
                 :
                 : "r"(x), "r"(x_stride), "r"(w), "r"(kLine)
                 : "memory");
  }
}

template <int kTurn>
IBID_INLINE void tile_multiply() {
  if constexpr (kTurn == 0) {
    asm volatile("tilezero %tmm4\n\ttdpbssd %tmm2, %tmm0, %tmm4");
  } else {
    asm volatile("tilezero %tmm5\n\ttdpbssd %tmm3, %tmm1, %tmm5");
  }
}

template <int kTurn>
IBID_INLINE void tile_store(int32_t* sums) {  // 64-byte aligned
  constexpr size_t kLine = 64;
  if constexpr (kTurn == 0) {
    asm volatile("tilestored %%tmm4, (%0,%1,1)" : : "r"(sums), "r"(kLine) : "memory");
  } else {
    asm volatile("tilestored %%tmm5, (%0,%1,1)" : : "r"(sums), "r"(kLine) : "memory");
  }
}

// float(a), |a| <= 2^22. While tiles work, products and conversions have one port instead of two, and sums still two
// (measured on Emerald Rapids): two sums are cheaper than a conversion.
IBID_INLINE V16 small_to_float(I16 a) {
  constexpr int32_t kMagicBits = 0x4b400000;  // 1.5 * 2^23: its last bit counts one
  constexpr float kMagic = 12582912.0f;
  return sub(as_float(add(a, set1(kMagicBits))), set1(kMagic));
}

}  // namespace
}  // namespace ibid::IBID_ISA
