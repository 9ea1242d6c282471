#include "model/weights/pack_blocks.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/layout/lane_words.h"
#include "kernels/layout/panel.h"

namespace ibid {

namespace {

using namespace lanes;

constexpr uint32_t kOnes = 0x01010101u;  // multiplied by a byte, gives a word with four copies of it

// Makes signalling NaN quiet, as converting halves to float and back does.
void quiet_halves(Word& halves) {
  for (uint32_t& word : halves) {
    const uint32_t half = word & 0xffffu;
    word = half | ((half & 0x7fffu) > 0x7c00u ? 0x200u : 0u);
  }
}

// --- Blocks of 32 values, whose nibbles are in the panel's order already. Fields: an F16 scale; if kMin, an F16 min;
// if kFifth, a word with the fifth bits of the codes; kWords words of nibbles, which are XORed with kFlip.

template <size_t kBytes, bool kMin, bool kFifth, size_t kWords, uint32_t kFlip>
struct Plain {
  static constexpr size_t kBlockBytes = kBytes;

  // Packs block `half` (0 or 1) of a chunk.
  static void pack(const PanelFormat& format, const Blocks& blocks, size_t half, std::byte* chunk) {
    constexpr size_t kFifthAt = kMin ? 4 : 2;
    Word scale;
    gather<1>(blocks, 0, &scale);
    if constexpr (kMin) {
      Word min;
      for (size_t r = 0; r < kLanes; ++r) min[r] = scale[r] >> 16;
      quiet_halves(min);
      store_halves(min, 0, chunk + format.mins_at() + 2 * kLanes * half);
    }
    quiet_halves(scale);
    store_halves(scale, 0, chunk + 2 * kLanes * half);
    Word codes[kWords + kFifth];
    gather<kWords>(blocks, kFifthAt + (kFifth ? 4 : 0), codes);
    if constexpr (kFlip != 0) {
      for (Word& word : codes) {
        for (uint32_t& lane : word) lane ^= kFlip;
      }
    }
    if constexpr (kFifth) {
      Word bits;
      gather<1>(blocks, kFifthAt, &bits);
      spread_fifth(bits, codes[kWords]);
    }
    std::memcpy(chunk + format.codes_at() + half * sizeof codes, codes, sizeof codes);
  }

  // Moves bit 4 j + i to bit 8 i + j.
  static void spread_fifth(const Word& bits, Word& spread) {
    for (size_t r = 0; r < kLanes; ++r) {
      uint32_t word = 0;
      for (unsigned j = 0; j < 8; ++j) {
        uint32_t four = (bits[r] >> (4 * j)) & 15u;
        four = (four | four << 14) & 0x00030003u;
        word |= ((four | four << 7) & kOnes) << j;
      }
      spread[r] = word;
    }
  }
};

// MXFP4: the scale is an exponent. Code 8 is minus zero, and is stored as code 0.
struct Mxfp4 {
  static constexpr size_t kBlockBytes = 17;

  static void pack(const PanelFormat& format, const Blocks& blocks, size_t half, std::byte* chunk) {
    Word scale;
    gather<1>(blocks, 0, &scale);
    for (uint32_t& bits : scale) bits = bfloat_of(bits & 255u);
    store_halves(scale, 0, chunk + 2 * kLanes * half);
    Word codes[4];
    gather<4>(blocks, 1, codes);
    for (Word& word : codes) {
      for (uint32_t& lane : word) lane &= 15 * not_eight(lane);
    }
    std::memcpy(chunk + format.codes_at() + half * sizeof codes, codes, sizeof codes);
  }

  // Returns the bfloat 2^(exponent - 128), subnormal for exponents 0 and 1; 255 is NaN.
  static uint32_t bfloat_of(uint32_t exponent) {
    const uint32_t number = exponent < 2 ? 0x20u << exponent : (exponent - 1) << 7;
    return exponent == 255 ? 0x7fc0u : number;
  }
  // Returns a word in which bit 0 of each nibble is 1 if the nibble in `nibbles` is not 8.
  static uint32_t not_eight(uint32_t nibbles) {
    const uint32_t differing = nibbles ^ 0x88888888u;
    return (differing | differing >> 1 | differing >> 2 | differing >> 3) & 0x11111111u;
  }
};

// --- Blocks of 256 values (weights/block_formats.h). Each type gathers the words of a block, then returns
//   scales, mins: a byte per group;   block_scales(): F16 d, and dmin in the upper 16 bits;   codes(): of 64 columns.

// Joins 32 codes of at most 4 bits to nibbles. low(w, r): word w of 8 of row r, with the codes of four columns.
template <typename Low>
void join_nibbles(Low low, Word* __restrict out) {
  for (size_t j = 0; j < 4; ++j) {
    for (size_t r = 0; r < kLanes; ++r) out[j][r] = low(j, r) | low(j + 4, r) << 4;
  }
}

// Joins 2-bit codes, or the upper 2 bits of 6-bit codes, of 32 columns to two words of 16 columns each.
template <typename High>
void join_pairs(High high, Word* __restrict out) {
  for (size_t v = 0; v < 2; ++v) {
    for (size_t r = 0; r < kLanes; ++r) {
      out[v][r] = high(4 * v, r) | high(4 * v + 1, r) << 2 | high(4 * v + 2, r) << 4 | high(4 * v + 3, r) << 6;
    }
  }
}

struct Q2K {
  static constexpr size_t kBlockBytes = 84, kGroups = 16;
  static constexpr bool kMins = true;
  Word words[21];  // nibbles of scales and mins [4] | 2-bit codes [16] | d and dmin [1]
  Word scales[4], mins[4];

  const Word& block_scales() const { return words[20]; }
  void read(const Blocks& blocks) {
    gather<21>(blocks, 0, words);
    for (size_t w = 0; w < 4; ++w) {
      for (size_t r = 0; r < kLanes; ++r) {
        scales[w][r] = words[w][r] & 15 * kOnes;
        mins[w][r] = words[w][r] >> 4 & 15 * kOnes;
      }
    }
  }
  // The four blocks of 32 values are in the same 32 bytes; each has 2 bits of every byte.
  void codes(size_t quarter, Word* out) const {
    for (size_t block = 0; block < 2; ++block, out += 2) {
      const Word* pairs = words + 4 + 8 * (quarter / 2);
      const unsigned plane = static_cast<unsigned>(4 * (quarter % 2) + 2 * block);
      join_pairs([=](size_t w, size_t r) { return pairs[w][r] >> plane & 3 * kOnes; }, out);
    }
  }
};

// Splits three words of packed 6-bit scales and mins into two words of scales and two of mins; for Q4_K and Q5_K.
void split_k_scales(const Word* __restrict packed, Word* __restrict scales, Word* __restrict mins) {
  for (size_t r = 0; r < kLanes; ++r) {
    const uint32_t a = packed[0][r], b = packed[1][r], c = packed[2][r];
    scales[0][r] = a & 63 * kOnes;
    mins[0][r] = b & 63 * kOnes;
    scales[1][r] = (c & 15 * kOnes) | ((a >> 6 & 3 * kOnes) << 4);
    mins[1][r] = (c >> 4 & 15 * kOnes) | ((b >> 6 & 3 * kOnes) << 4);
  }
}

struct Q4K {
  static constexpr size_t kBlockBytes = 144, kGroups = 8;
  static constexpr bool kMins = true;
  Word words[36];  // d and dmin [1] | scales and mins [3] | nibbles [32]
  Word scales[2], mins[2];

  const Word& block_scales() const { return words[0]; }
  void read(const Blocks& blocks) {
    gather<36>(blocks, 0, words);
    split_k_scales(words + 1, scales, mins);
  }
  // The two blocks of 32 values are the low and the high nibbles of the same 32 bytes.
  void codes(size_t quarter, Word* out) const { k_nibbles(words + 4 + 8 * quarter, out, out + 4); }

  static void k_nibbles(const Word* quants, Word* first, Word* second) {
    join_nibbles([=](size_t w, size_t r) { return quants[w][r] & 15 * kOnes; }, first);
    join_nibbles([=](size_t w, size_t r) { return quants[w][r] >> 4 & 15 * kOnes; }, second);
  }
};

struct Q5K {
  static constexpr size_t kBlockBytes = 176, kGroups = 8;
  static constexpr bool kMins = true;
  Word words[44];  // d and dmin [1] | scales and mins [3] | fifth bits [8] | nibbles [32]
  Word scales[2], mins[2];

  const Word& block_scales() const { return words[0]; }
  void read(const Blocks& blocks) {
    gather<44>(blocks, 0, words);
    split_k_scales(words + 1, scales, mins);
  }
  void codes(size_t quarter, Word* out) const {
    Q4K::k_nibbles(words + 12 + 8 * quarter, out, out + 5);
    fifth_bits(static_cast<unsigned>(2 * quarter), out[4]);
    fifth_bits(static_cast<unsigned>(2 * quarter + 1), out[9]);
  }
  void fifth_bits(unsigned group, Word& out) const {
    for (size_t r = 0; r < kLanes; ++r) {
      uint32_t word = 0;
      for (unsigned j = 0; j < 8; ++j) word |= (words[4 + j][r] >> group & kOnes) << j;
      out[r] = word;
    }
  }
};

struct Q6K {
  static constexpr size_t kBlockBytes = 210, kGroups = 16;
  static constexpr bool kMins = false;
  Word words[52];  // low nibbles [32] | upper 2 bits of codes [16] | scales [4]
  Word halves;
  const Word* const scales = words + 48;

  const Word& block_scales() const { return halves; }
  void read(const Blocks& blocks) {
    gather<52>(blocks, 0, words);
    gather<1>(blocks, 206, &halves);
    for (uint32_t& half : halves) half >>= 16;
  }
  // Quarters 2 h and 2 h + 1 are the low and the high nibbles of the same 64 bytes. The upper 2 bits of their four
  // blocks are in the same 32 bytes; each block has 2 bits of every byte.
  void codes(size_t quarter, Word* out) const {
    const unsigned shift = 4 * (quarter % 2);
    for (size_t block = 0; block < 2; ++block, out += 6) {
      const Word* nibbles = words + 16 * (quarter / 2) + 8 * block;
      const Word* pairs = words + 32 + 8 * (quarter / 2);
      const unsigned plane = shift + 2 * static_cast<unsigned>(block);
      join_nibbles([=](size_t w, size_t r) { return nibbles[w][r] >> shift & 15 * kOnes; }, out);
      join_pairs([=](size_t w, size_t r) { return pairs[w][r] >> plane & 3 * kOnes; }, out + 4);
    }
  }
};

// The panel has 6-bit codes, value + 32: a nibble and two upper bits. With v, the lower two bits of a Q3_K code: if its
// third bit is clear, the value is v - 4 (nibble 12 | v, upper bits 1), else v (nibble v, upper bits 2).
struct Q3K {
  static constexpr size_t kBlockBytes = 110, kGroups = 16;
  static constexpr bool kMins = false;
  Word words[27];  // third bits of codes [8] | lower 2 bits [16] | scales [3]
  Word halves, scales[4];

  const Word& block_scales() const { return halves; }
  void read(const Blocks& blocks) {
    gather<27>(blocks, 0, words);
    gather<1>(blocks, 106, &halves);
    for (uint32_t& half : halves) half >>= 16;
    const Word* packed = words + 24;
    for (unsigned w = 0; w < 4; ++w) {
      for (size_t r = 0; r < kLanes; ++r) {
        const uint32_t nibble = packed[w % 2][r] >> (4 * (w / 2)) & 15 * kOnes;
        const uint32_t six = nibble | (packed[2][r] >> (2 * w) & 3 * kOnes) << 4;
        // Subtracts 32 from each byte, with sign extension.
        const uint32_t negative = (six ^ 32 * kOnes) & 32 * kOnes;
        scales[w][r] = (six & 31 * kOnes) | negative | negative << 1 | negative << 2;
      }
    }
  }
  void codes(size_t quarter, Word* out) const {
    for (size_t block = 0; block < 2; ++block, out += 6) {
      const Word* twos = words + 8 + 8 * (quarter / 2);
      const unsigned plane = static_cast<unsigned>(4 * (quarter % 2) + 2 * block);
      const unsigned bit = static_cast<unsigned>(2 * quarter + block);
      const auto clear = [&](size_t w, size_t r) { return (words[w][r] >> bit & kOnes) ^ kOnes; };
      join_nibbles([&](size_t w, size_t r) { return (twos[w][r] >> plane & 3 * kOnes) | clear(w, r) * 12; }, out);
      join_pairs([&](size_t w, size_t r) { return 2 * kOnes - clear(w, r); }, out + 4);
    }
  }
};

// The nibbles of a block of 32 are already in the panel's order.
struct Iq4xs {
  static constexpr size_t kBlockBytes = 136, kGroups = 8;
  static constexpr bool kMins = false;
  Word words[34];  // d, upper 2 bits of scales [1] | lower 4 bits of scales [1] | nibbles [32]
  Word scales[2];

  const Word& block_scales() const { return words[0]; }
  void read(const Blocks& blocks) {
    gather<34>(blocks, 0, words);
    for (unsigned g = 0; g < kGroups; ++g) {
      for (size_t r = 0; r < kLanes; ++r) {
        const uint32_t six = (words[1][r] >> (4 * g) & 15u) | (words[0][r] >> (16 + 2 * g) & 3u) << 4;
        if (g % 4 == 0) scales[g / 4][r] = 0;
        scales[g / 4][r] |= ((six - 32) & 255u) << (8 * (g % 4));
      }
    }
  }
  void codes(size_t quarter, Word* out) const { std::memcpy(out, words + 2 + 8 * quarter, 8 * sizeof(Word)); }
};

// Packs one block of each row into one chunk of the panel.
template <typename Block>
void pack_super(const PanelFormat& format, const Blocks& blocks, std::byte* out) {
  Block block;
  block.read(blocks);
  store_halves(block.block_scales(), 0, out);
  if constexpr (Block::kMins) store_halves(block.block_scales(), 16, out + format.super_mins_at());
  for (size_t group = 0; group < Block::kGroups; ++group) {
    const unsigned shift = static_cast<unsigned>(8 * (group % 4));
    store_bytes(block.scales[group / 4], shift, out + format.scale_codes_at() + group * kLanes);
    if constexpr (Block::kMins) {
      store_bytes(block.mins[group / 4], shift, out + format.min_codes_at() + group * kLanes);
    }
  }
  const size_t end = format.scale_codes_at() + Block::kGroups * kLanes * (Block::kMins ? 2 : 1);
  std::memset(out + end, 0, format.codes_at() - end);
  std::byte* codes = out + format.codes_at();
  for (size_t quarter = 0; quarter < 4; ++quarter, codes += 2 * format.block_code_bytes()) {
    block.codes(quarter, reinterpret_cast<Word*>(codes));
  }
}

template <typename Block>
void pack_plain_panel(const PanelFormat& format, RowCursor& rows, size_t n_cols, std::byte* out) {
  for (size_t col = 0; col < n_cols; col += kQuantBlock) {
    const size_t half = col / kQuantBlock % 2;
    // The last chunk may have only one block.
    if (half == 0 && col + kQuantBlock == n_cols) std::memset(out, 0, format.chunk_bytes());
    Block::pack(format, rows.blocks, half, out);
    rows.advance(Block::kBlockBytes);
    if (half == 1) out += format.chunk_bytes();
  }
}

template <typename Block>
void pack_super_panel(const PanelFormat& format, RowCursor& rows, size_t n_cols, std::byte* out) {
  for (size_t col = 0; col < n_cols; col += kSuperChunkCols, out += format.chunk_bytes()) {
    pack_super<Block>(format, rows.blocks, out);
    rows.advance(Block::kBlockBytes);
  }
}

void clear_chunk_lanes(const PanelFormat& format, size_t n_rows, std::byte* chunk) {
  std::byte* halves_end = chunk + (format.super_scales() ? format.scale_codes_at() : format.codes_at());
  clear_lanes(n_rows, chunk, halves_end, 2);
  clear_lanes(n_rows, halves_end, chunk + format.codes_at(), 1);
  clear_lanes(n_rows, chunk + format.codes_at(), chunk + format.chunk_bytes(), 4);
}

using PackPanel = void (*)(const PanelFormat& format, RowCursor& rows, size_t n_cols, std::byte* out);

PackPanel packer_of(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return pack_plain_panel<Plain<18, false, false, 4, 0>>;
    case DType::kQ4_1: return pack_plain_panel<Plain<20, true, false, 4, 0>>;
    case DType::kQ5_0: return pack_plain_panel<Plain<22, false, true, 4, 0>>;
    case DType::kQ5_1: return pack_plain_panel<Plain<24, true, true, 4, 0>>;
    case DType::kQ8_0: return pack_plain_panel<Plain<34, false, false, 8, 128 * kOnes>>;
    case DType::kQ2_K: return pack_super_panel<Q2K>;
    case DType::kQ3_K: return pack_super_panel<Q3K>;
    case DType::kQ4_K: return pack_super_panel<Q4K>;
    case DType::kQ5_K: return pack_super_panel<Q5K>;
    case DType::kQ6_K: return pack_super_panel<Q6K>;
    case DType::kIQ4_XS: return pack_super_panel<Iq4xs>;
    case DType::kIQ4_NL: return pack_plain_panel<Plain<18, false, false, 4, 0>>;
    case DType::kMXFP4: return pack_plain_panel<Mxfp4>;
    default: return nullptr;
  }
}

}  // namespace

bool can_pack_blocks(DType dtype) {
  if (dtype == DType::kF8E4M3Scaled || dtype == DType::kF8E5M2Scaled) return true;
  return dtype_is_float(dtype) || (dtype_is_quantized(dtype) && !panel_is_float(panel_type_for(dtype)));
}

void pack_blocks(DType dtype, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out) {
  CHECK(can_pack_blocks(dtype)) << dtype_name(dtype);
  CHECK(!rows.empty() && rows.size() <= kLanes) << rows.size();
  CHECK_EQ(n_cols % dtype_block(dtype).values, size_t{0});
  const PanelType type = panel_type_for(dtype);
  if (panel_is_f8(type)) return pack_f8(type, rows, n_cols, out);
  RowCursor cursor(rows, n_cols / dtype_block(dtype).values * dtype_block(dtype).bytes);
  if (panel_is_float(type)) return pack_float_panel(type, cursor, rows.size(), n_cols, out);
  const PackPanel pack = packer_of(dtype);
  if (pack == nullptr) return pack_decoded(dtype, rows, n_cols, out);
  const PanelFormat format = panel_format(type);
  pack(format, cursor, n_cols, out);
  if (rows.size() == kLanes) return;
  const std::byte* end = out + panel_bytes(type, n_cols);
  for (; out < end; out += format.chunk_bytes()) clear_chunk_lanes(format, rows.size(), out);
}

}  // namespace ibid
