#include "weights/k_formats.h"

#include <cstring>

namespace ibid {

namespace {

// Eight 6-bit scales and mins in 12 bytes: groups 0..3 in the low six bits of bytes 0..3 (scale) and 4..7
// (min); groups 4..7 have their low nibbles in bytes 8..11 and their two high bits on top of the former.
void split_k_scales(const uint8_t* packed, SuperBlock& block) {
  for (size_t g = 0; g < 8; ++g) {
    int scale = packed[g % 4] & 63;
    int min = packed[4 + g % 4] & 63;
    if (g >= 4) {
      scale = (packed[4 + g] & 15) | ((packed[g - 4] >> 6) << 4);
      min = (packed[4 + g] >> 4) | ((packed[g] >> 6) << 4);
    }
    block.scales[g] = static_cast<int8_t>(scale);
    block.mins[g] = static_cast<int8_t>(min);
  }
}

}  // namespace

// Two halves of 128 values; in each, 32 bytes carry four 2-bit planes of 32 values.
SuperBlock split_q2_k(BlockCursor in, int8_t* codes) {
  SuperBlock block;
  const uint8_t* packed = in.bytes(16);
  const uint8_t* qs = in.bytes(64);
  block.d = in.u16();
  block.dmin = in.u16();
  for (size_t g = 0; g < 16; ++g) {
    block.scales[g] = static_cast<int8_t>(packed[g] & 15);
    block.mins[g] = static_cast<int8_t>(packed[g] >> 4);
  }
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128, plane = i % 128 / 32;
    codes[i] = static_cast<int8_t>((qs[32 * half + i % 32] >> (2 * plane)) & 3);
  }
  return block;
}

// As Q2_K, with a third bit per value: bit (i / 32) of byte (i mod 32); a *cleared* bit subtracts 4.
// Scales: low nibbles in bytes 0..7, two high bits in bytes 8..11.
SuperBlock split_q3_k(BlockCursor in, int8_t* codes) {
  SuperBlock block;
  const uint8_t* third = in.bytes(32);
  const uint8_t* qs = in.bytes(64);
  const uint8_t* packed = in.bytes(12);
  block.d = in.u16();
  for (size_t g = 0; g < 16; ++g) {
    const int low = nibble(packed[g % 8], g >= 8);
    const int high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
    block.scales[g] = static_cast<int8_t>((low | (high << 4)) - 32);
  }
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128, plane = i % 128 / 32;
    const int low = (qs[32 * half + i % 32] >> (2 * plane)) & 3;
    const int high = (third[i % 32] >> (i / 32)) & 1;
    codes[i] = static_cast<int8_t>(low - (high == 1 ? 0 : 4));
  }
  return block;
}

// Groups 2j and 2j + 1 are the low and the high nibbles of bytes 32j..32j+31.
SuperBlock split_q4_k(BlockCursor in, int8_t* codes) {
  SuperBlock block;
  block.d = in.u16();
  block.dmin = in.u16();
  split_k_scales(in.bytes(12), block);
  const uint8_t* qs = in.bytes(128);
  for (size_t pair = 0; pair < 4; ++pair, qs += 32, codes += 64) {
    for (size_t l = 0; l < 32; ++l) codes[l] = static_cast<int8_t>(qs[l] & 15);
    for (size_t l = 0; l < 32; ++l) codes[32 + l] = static_cast<int8_t>(qs[l] >> 4);
  }
  return block;
}

// As Q4_K; bit g of byte l is the fifth bit of value l of group g.
SuperBlock split_q5_k(BlockCursor in, int8_t* codes) {
  SuperBlock block;
  block.d = in.u16();
  block.dmin = in.u16();
  split_k_scales(in.bytes(12), block);
  const uint8_t* fifth = in.bytes(32);
  const uint8_t* qs = in.bytes(128);
  for (size_t pair = 0; pair < 4; ++pair, qs += 32, codes += 64) {
    for (size_t l = 0; l < 32; ++l) {
      codes[l] = static_cast<int8_t>((qs[l] & 15) | (((fifth[l] >> (2 * pair)) & 1) << 4));
      codes[32 + l] = static_cast<int8_t>((qs[l] >> 4) | (((fifth[l] >> (2 * pair + 1)) & 1) << 4));
    }
  }
  return block;
}

// Two halves of 128 values; in each, 64 bytes carry two nibble planes of 64 and 32 bytes four 2-bit planes
// of 32.
SuperBlock split_q6_k(BlockCursor in, int8_t* codes) {
  SuperBlock block;
  const uint8_t* low = in.bytes(128);
  const uint8_t* high = in.bytes(64);
  std::memcpy(block.scales.data(), in.bytes(16), 16);
  block.d = in.u16();
  for (size_t half = 0; half < 2; ++half, low += 64, high += 32, codes += 128) {
    for (size_t l = 0; l < 32; ++l) {
      codes[l] = static_cast<int8_t>(((low[l] & 15) | ((high[l] & 3) << 4)) - 32);
      codes[32 + l] = static_cast<int8_t>(((low[32 + l] & 15) | (((high[l] >> 2) & 3) << 4)) - 32);
      codes[64 + l] = static_cast<int8_t>(((low[l] >> 4) | (((high[l] >> 4) & 3) << 4)) - 32);
      codes[96 + l] = static_cast<int8_t>(((low[32 + l] >> 4) | ((high[l] >> 6) << 4)) - 32);
    }
  }
  return block;
}

}  // namespace ibid
