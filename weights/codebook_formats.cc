#include "weights/codebook_formats.h"

#include <bit>

#include "weights/codebooks.h"

namespace ibid {

namespace {

// Eight codes of which value i is negative where bit i is set.
void apply_signs(unsigned signs, int8_t* codes) {
  for (unsigned i = 0; i < 8; ++i) {
    if ((signs >> i & 1) != 0) codes[i] = static_cast<int8_t>(-codes[i]);
  }
}

// Seven signs; the eighth makes their number even.
unsigned even_signs(unsigned seven) {
  return seven | static_cast<unsigned>(std::popcount(seven) & 1) << 7;
}

void put_eight(const int8_t* book, unsigned index, unsigned signs, int8_t* codes) {
  std::memcpy(codes, book + 8 * index, 8);
  apply_signs(signs, codes);
}

void put_two_fours(const int8_t* book, unsigned first, unsigned second, unsigned signs, int8_t* codes) {
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

// Eight codes 8 g + 1 or 8 g - 1 for the entry's g of -1, 0, 1.
void put_shifted(const int8_t* book, unsigned index, bool down, int8_t* codes) {
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

// The half is in the high nibbles of the four words of scales.
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

// The format has (s + 1/2) / 2 for a scale: 2 (2 s + 1) eighths.
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

// The format has 2 s + 1 for a scale and odd numbers to 15 for codes: with twice these, 4 (2 s + 1) eighths.
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
