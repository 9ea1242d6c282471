// AMX tile registers (Intel SDM, volume 1, chapter 18): the operations that the kernels need. Included only by
// isa_amx.cc. Loads and stores are declared to clobber memory, because the compiler cannot see their accesses; it can
// still keep vectors in registers across them. Tiles are template arguments, as in the instructions: tile_load<2>(...)
// loads tmm2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ibid::IBID_ISA {
namespace {

struct TileShape {
  size_t rows;   // number of rows, at most 16
  size_t bytes;  // bytes of a row, at most 64
};

// Configures the shapes of the eight tiles, until the object is destroyed.
class TileScope {
 public:
  explicit TileScope(const TileShape (&shapes)[8]) {
    Config config{.palette = 1, .start_row = 0, .reserved = {}, .row_bytes = {}, .rows = {}};
    for (size_t i = 0; i < 8; ++i) {
      config.rows[i] = static_cast<uint8_t>(shapes[i].rows);
      config.row_bytes[i] = static_cast<uint16_t>(shapes[i].bytes);
    }
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

// Loads a tile whose rows are `stride` bytes apart in memory.
template <int kTile>
IBID_INLINE void tile_load(const void* rows, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
IBID_INLINE void tile_store(int32_t* rows, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
IBID_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// total[r][i] += sum over k of left[r][k] right[k / 4][i][k % 4]. left: int8 [rows][k], right: int8 [k / 4][16][4],
// total: int32 [rows][16]. Exact.
template <int kTotal, int kLeft, int kRight>
IBID_INLINE void tile_multiply() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTotal), "i"(kLeft), "i"(kRight));
}

// These two functions multiply tiles as tile_multiply() does, but the bytes are unsigned on the right (the first
// function) or on the left (the second).
template <int kTotal, int kLeft, int kRight>
IBID_INLINE void tile_multiply_right_unsigned() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTotal), "i"(kLeft), "i"(kRight));
}
template <int kTotal, int kLeft, int kRight>
IBID_INLINE void tile_multiply_left_unsigned() {
  asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTotal), "i"(kLeft), "i"(kRight));
}

// Returns float(a). REQUIRES: |a| <= 2^22. While tiles multiply, vector products and conversions have one port instead
// of two, but additions still have two (measured on Emerald Rapids). So two additions are cheaper than a conversion.
IBID_INLINE V16 small_to_float(I16 a) {
  constexpr int32_t kMagicBits = 0x4b400000;  // 1.5 * 2^23, whose lowest mantissa bit is worth 1
  constexpr float kMagic = 12582912.0f;
  return sub(as_float(add(a, set1(kMagicBits))), set1(kMagic));
}

}  // namespace
}  // namespace ibid::IBID_ISA
