#include "weights/super_blocks.h"

#include <bit>
#include <cstring>

namespace ibid {

namespace {

// Unpacks eight 6-bit scales and mins from 12 bytes. Groups 0..3: the low six bits of bytes 0..3 (scales) and 4..7
// (mins). Groups 4..7: low nibbles in bytes 8..11, the high two bits in the high bits of bytes 0..7.
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

// A block has two halves of 128 values. In each half, 32 bytes hold four 2-bit planes of 32 values.
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

// As Q2_K, with a third bit for each value i: bit (i / 32) of byte (i mod 32). If the bit is *cleared*, 4 is
// subtracted. Scales: low nibbles in bytes 0..7, the high two bits in bytes 8..11.
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

// Byte 32 j + i holds value i of group 2 j in its low nibble and value i of group 2 j + 1 in its high nibble (i < 32).
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

// A block has two halves of 128 values. In each half, 64 bytes hold two nibble planes of 64 values, and 32 bytes hold
// four 2-bit planes of 32 values.
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

namespace {

// Negates codes[i] for each of eight codes if bit i of `signs` is set.
void apply_signs(unsigned signs, int8_t* codes) {
  for (unsigned i = 0; i < 8; ++i) {
    if ((signs >> i & 1) != 0) codes[i] = static_cast<int8_t>(-codes[i]);
  }
}

// Adds the eighth sign bit, which makes the number of set bits even.
unsigned even_signs(unsigned seven) { return seven | static_cast<unsigned>(std::popcount(seven) & 1) << 7; }

void put_eight(const int8_t* book, size_t index, unsigned signs, int8_t* codes) {
  std::memcpy(codes, book + 8 * index, 8);
  apply_signs(signs, codes);
}

void put_two_fours(const int8_t* book, size_t first, size_t second, unsigned signs, int8_t* codes) {
  std::memcpy(codes, book + 4 * first, 4);
  std::memcpy(codes + 4, book + 4 * second, 4);
  apply_signs(signs, codes);
}

int8_t odd(unsigned code) { return static_cast<int8_t>(2 * code + 1); }

void split_nibble_scales(const uint8_t* packed, size_t n, SuperBlock& block) {
  for (size_t g = 0; g < n; ++g) {
    block.scales[g] = odd(static_cast<unsigned>(nibble(packed[g / 2], g % 2 == 1)));
  }
}

// Writes the eight codes of codebook entry `index`. For each of its values g in {-1, 0, 1} the code is 8 g - 1 if
// `down` is set, else 8 g + 1.
void put_shifted(const int8_t* book, size_t index, bool down, int8_t* codes) {
  const int8_t* entry = book + 8 * index;
  for (size_t i = 0; i < 8; ++i) codes[i] = static_cast<int8_t>(8 * entry[i] + (down ? -1 : 1));
}

}  // namespace

SuperBlock split_iq1_s(BlockCursor in, int8_t* codes) {
  const int8_t* const book = codebook(Codebook::kIq1);
  SuperBlock block;
  block.d = in.u16();
  const uint8_t* low = in.bytes(32);
  for (size_t g = 0; g < 8; ++g) {
    const unsigned high = in.u16();
    block.scales[g] = odd(high >> 12 & 7);
    for (size_t l = 0; l < 4; ++l, codes += 8) {
      put_shifted(book, low[4 * g + l] | (high >> (3 * l) & 7) << 8, (high & 0x8000) != 0, codes);
    }
  }
  return block;
}

// The highest nibbles of the four 16-bit words of scales together are the FP16 scale of the block.
SuperBlock split_iq1_m(BlockCursor in, int8_t* codes) {
  const int8_t* const book = codebook(Codebook::kIq1);
  SuperBlock block;
  const uint8_t* low = in.bytes(32);
  const uint8_t* high = in.bytes(16);
  for (unsigned w = 0; w < 4; ++w) {
    const unsigned word = in.u16();
    block.d = static_cast<uint16_t>(block.d | (word >> 12) << (4 * w));
    for (unsigned g = 0; g < 4; ++g) block.scales[4 * w + g] = odd(word >> (3 * g) & 7);
  }
  for (size_t i = 0; i < 32; ++i, codes += 8) {
    const auto more = static_cast<unsigned>(nibble(high[i / 2], i % 2 == 1));
    put_shifted(book, low[i] | (more & 7) << 8, (more & 8) != 0, codes);
  }
  return block;
}

SuperBlock split_iq2_xxs(BlockCursor in, int8_t* codes) {
  const int8_t* const book = codebook(Codebook::kIq2xxs);
  SuperBlock block;
  block.d = in.u16();
  for (size_t g = 0; g < 8; ++g) {
    const uint8_t* indices = in.bytes(4);
    const uint32_t signs = in.u32();
    block.scales[g] = odd(signs >> 28);
    for (size_t l = 0; l < 4; ++l, codes += 8) {
      put_eight(book, indices[l], even_signs(signs >> (7 * l) & 127), codes);
    }
  }
  return block;
}

SuperBlock split_iq2_xs(BlockCursor in, int8_t* codes) {
  const int8_t* const book = codebook(Codebook::kIq2xs);
  SuperBlock block;
  block.d = in.u16();
  for (size_t i = 0; i < 32; ++i, codes += 8) {
    const unsigned word = in.u16();
    put_eight(book, word & 511, even_signs(word >> 9), codes);
  }
  split_nibble_scales(in.bytes(8), 16, block);
  return block;
}

SuperBlock split_iq2_s(BlockCursor in, int8_t* codes) {
  const int8_t* const book = codebook(Codebook::kIq2s);
  SuperBlock block;
  block.d = in.u16();
  const uint8_t* low = in.bytes(32);
  const uint8_t* signs = in.bytes(32);
  const uint8_t* high = in.bytes(8);
  for (size_t i = 0; i < 32; ++i, codes += 8) {
    const unsigned more = high[i / 4] >> (2 * (i % 4)) & 3u;
    put_eight(book, low[i] | more << 8, signs[i], codes);
  }
  split_nibble_scales(in.bytes(8), 16, block);
  return block;
}

// The format's scale is (s + 1/2) / 2. Scales are stored as eighths, so store 2 (2 s + 1).
SuperBlock split_iq3_xxs(BlockCursor in, int8_t* codes) {
  const int8_t* const book = codebook(Codebook::kIq3xxs);
  SuperBlock block;
  block.d = in.u16();
  const uint8_t* indices = in.bytes(64);
  for (size_t g = 0; g < 8; ++g) {
    const uint32_t signs = in.u32();
    block.scales[g] = static_cast<int8_t>(2 * odd(signs >> 28));
    for (size_t l = 0; l < 4; ++l, codes += 8, indices += 2) {
      put_two_fours(book, indices[0], indices[1], even_signs(signs >> (7 * l) & 127), codes);
    }
  }
  return block;
}

// The format's scale is 2 s + 1, and its codes are odd numbers up to 15. The codes of ibid are twice as large, so the
// scale is half as large: 4 (2 s + 1) eighths.
SuperBlock split_iq3_s(BlockCursor in, int8_t* codes) {
  const int8_t* const book = codebook(Codebook::kIq3s);
  SuperBlock block;
  block.d = in.u16();
  const uint8_t* low = in.bytes(64);
  const uint8_t* high = in.bytes(8);
  const uint8_t* signs = in.bytes(32);
  for (size_t i = 0; i < 32; ++i, codes += 8) {
    const unsigned more = high[i / 4] >> (2 * (i % 4));
    put_two_fours(book, low[2 * i] | (more & 1) << 8, low[2 * i + 1] | (more >> 1 & 1) << 8, signs[i], codes);
  }
  split_nibble_scales(in.bytes(4), 8, block);
  for (size_t g = 0; g < 8; ++g) block.scales[g] = static_cast<int8_t>(4 * block.scales[g]);
  return block;
}

}  // namespace ibid
