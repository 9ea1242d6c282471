#include "weights/block_formats.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace ibid {

namespace {

// Reads the fields of one block in order; memcpy, because blocks of 18 or 210 bytes are never aligned.
class BlockCursor {
 public:
  explicit BlockCursor(const std::byte* at) : at_(at) {}

  const uint8_t* bytes(size_t n) {
    const auto* field = reinterpret_cast<const uint8_t*>(at_);
    at_ += n;
    return field;
  }
  uint16_t u16() { return read<uint16_t>(); }
  uint32_t u32() { return read<uint32_t>(); }
  float f16() { return fp16_to_float(u16()); }

 private:
  template <typename T>
  T read() {
    T value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  const std::byte* at_;
};

struct BlockOut {
  int8_t* codes;
  float* scales;
  float* mins;
};

int nibble(uint8_t byte, bool high) { return high ? byte >> 4 : byte & 15; }

// The 32 values of a block whose byte j holds value j (low) and value j + 16 (high); `fifth` adds 16 per set
// bit.
void unpack_nibbles(const uint8_t* qs, uint32_t fifth, int offset, int8_t* codes) {
  for (size_t i = 0; i < 32; ++i) {
    const int high_bit = static_cast<int>((fifth >> i) & 1u) << 4;
    codes[i] = static_cast<int8_t>((nibble(qs[i % 16], i >= 16) | high_bit) - offset);
  }
}

void unpack_q8_0(BlockCursor in, BlockOut out) {
  out.scales[0] = in.f16();
  std::memcpy(out.codes, in.bytes(32), 32);
}

void unpack_q4_0(BlockCursor in, BlockOut out) {
  out.scales[0] = in.f16();
  unpack_nibbles(in.bytes(16), 0, 8, out.codes);
}

void unpack_q4_1(BlockCursor in, BlockOut out) {
  out.scales[0] = in.f16();
  out.mins[0] = in.f16();
  unpack_nibbles(in.bytes(16), 0, 0, out.codes);
}

void unpack_q5_0(BlockCursor in, BlockOut out) {
  out.scales[0] = in.f16();
  const uint32_t fifth = in.u32();
  unpack_nibbles(in.bytes(16), fifth, 16, out.codes);
}

void unpack_q5_1(BlockCursor in, BlockOut out) {
  out.scales[0] = in.f16();
  out.mins[0] = in.f16();
  const uint32_t fifth = in.u32();
  unpack_nibbles(in.bytes(16), fifth, 0, out.codes);
}

// Two halves of 128 values; in each, 32 bytes carry four 2-bit planes of 32 values.
void unpack_q2_k(BlockCursor in, BlockOut out) {
  const uint8_t* packed = in.bytes(16);
  const uint8_t* qs = in.bytes(64);
  const float d = in.f16();
  const float dmin = in.f16();
  for (size_t g = 0; g < 16; ++g) {
    out.scales[g] = d * static_cast<float>(packed[g] & 15);
    out.mins[g] = -(dmin * static_cast<float>(packed[g] >> 4));
  }
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128, plane = i % 128 / 32;
    out.codes[i] = static_cast<int8_t>((qs[32 * half + i % 32] >> (2 * plane)) & 3);
  }
}

// A block of a K type before its scales are multiplied: scale of group g = d * scales[g], min = -(dmin * mins[g]).
struct SuperBlock {
  uint16_t d = 0, dmin = 0;
  std::array<int8_t, kMaxGroupsPerBlock> scales{}, mins{};
};

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

using SplitBlock = SuperBlock (*)(BlockCursor in, int8_t* codes);

template <SplitBlock kSplit, size_t kGroups, bool kMins>
void unpack_super(BlockCursor in, BlockOut out) {
  const SuperBlock block = kSplit(in, out.codes);
  const float d = fp16_to_float(block.d), dmin = fp16_to_float(block.dmin);
  for (size_t g = 0; g < kGroups; ++g) {
    out.scales[g] = d * static_cast<float>(block.scales[g]);
    if (kMins) out.mins[g] = -(dmin * static_cast<float>(block.mins[g]));
  }
}

struct QuantFormat {
  DType dtype;
  QuantLayout layout;
  void (*unpack_block)(BlockCursor, BlockOut);
  SplitBlock split = nullptr;  // Q3_K to Q6_K
};

constexpr QuantFormat kQuantFormats[] = {
    {DType::kQ4_0, {32, false, -8, 7, true}, unpack_q4_0},
    {DType::kQ4_1, {32, true, 0, 15, true}, unpack_q4_1},
    {DType::kQ5_0, {32, false, -16, 15, true}, unpack_q5_0},
    {DType::kQ5_1, {32, true, 0, 31, true}, unpack_q5_1},
    {DType::kQ8_0, {32, false, -128, 127, true}, unpack_q8_0},
    {DType::kQ2_K, {16, true, 0, 3, false}, unpack_q2_k},
    {DType::kQ3_K, {16, false, -4, 3, false}, unpack_super<split_q3_k, 16, false>, split_q3_k},
    {DType::kQ4_K, {32, true, 0, 15, false}, unpack_super<split_q4_k, 8, true>, split_q4_k},
    {DType::kQ5_K, {32, true, 0, 31, false}, unpack_super<split_q5_k, 8, true>, split_q5_k},
    {DType::kQ6_K, {16, false, -32, 31, false}, unpack_super<split_q6_k, 16, false>, split_q6_k},
};

const QuantFormat& format_of(DType dtype) {
  CHECK(dtype_is_quantized(dtype)) << dtype_name(dtype);
  const QuantFormat& format = kQuantFormats[static_cast<size_t>(dtype) - static_cast<size_t>(DType::kQ4_0)];
  DCHECK(format.dtype == dtype);
  return format;
}

// The number of blocks in a row of `values` values, after checking that `bytes` is exactly them.
size_t checked_blocks(DType dtype, size_t values, size_t bytes) {
  const BlockSize block = dtype_block(dtype);
  CHECK_EQ(values % block.values, size_t{0});
  CHECK_EQ(bytes, values / block.values * block.bytes);
  return values / block.values;
}

void dequantize_quantized(const QuantFormat& format, std::span<const std::byte> blocks,
                          std::span<float> out) {
  const BlockSize size = dtype_block(format.dtype);
  const size_t n_blocks = checked_blocks(format.dtype, out.size(), blocks.size());
  std::array<int8_t, kMaxValuesPerBlock> codes;
  std::array<float, kMaxGroupsPerBlock> scales, mins;
  for (size_t b = 0; b < n_blocks; ++b) {
    format.unpack_block(BlockCursor(blocks.data() + b * size.bytes),
                        {codes.data(), scales.data(), mins.data()});
    float* values = out.data() + b * size.values;
    for (size_t i = 0; i < size.values; ++i) {
      const size_t group = i / format.layout.group_size;
      const float product = scales[group] * static_cast<float>(codes[i]);
      values[i] = format.layout.has_mins ? product + mins[group] : product;
    }
  }
}

}  // namespace

QuantLayout quant_layout(DType dtype) { return format_of(dtype).layout; }

void unpack_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes,
                std::span<float> scales, std::span<float> mins) {
  const QuantFormat& format = format_of(dtype);
  const BlockSize size = dtype_block(dtype);
  const size_t n_blocks = checked_blocks(dtype, codes.size(), blocks.size());
  const size_t groups_per_block = size.values / format.layout.group_size;
  CHECK_EQ(scales.size(), n_blocks * groups_per_block);
  CHECK_EQ(mins.size(), format.layout.has_mins ? scales.size() : size_t{0});
  for (size_t b = 0; b < n_blocks; ++b) {
    float* block_mins = format.layout.has_mins ? mins.data() + b * groups_per_block : nullptr;
    format.unpack_block(BlockCursor(blocks.data() + b * size.bytes),
                        {codes.data() + b * size.values, scales.data() + b * groups_per_block, block_mins});
  }
}

bool has_super_scales(DType dtype) { return dtype_is_quantized(dtype) && format_of(dtype).split != nullptr; }

void unpack_super_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes,
                      const SuperScales& out) {
  CHECK(has_super_scales(dtype)) << dtype_name(dtype);
  const QuantFormat& format = format_of(dtype);
  const size_t n_blocks = checked_blocks(dtype, codes.size(), blocks.size());
  const size_t groups = kMaxValuesPerBlock / format.layout.group_size;
  for (size_t b = 0; b < n_blocks; ++b) {
    const BlockCursor in(blocks.data() + b * dtype_block(dtype).bytes);
    const SuperBlock block = format.split(in, codes.data() + b * kMaxValuesPerBlock);
    out.d[b] = block.d;
    std::memcpy(&out.scales[b * groups], block.scales.data(), groups);
    if (!format.layout.has_mins) continue;
    out.dmin[b] = block.dmin;
    std::memcpy(&out.mins[b * groups], block.mins.data(), groups);
  }
}

void dequantize_row(DType dtype, std::span<const std::byte> blocks, std::span<float> out) {
  if (dtype_is_quantized(dtype)) return dequantize_quantized(format_of(dtype), blocks, out);
  CHECK(dtype_is_float(dtype)) << dtype_name(dtype);
  checked_blocks(dtype, out.size(), blocks.size());
  if (dtype == DType::kF32) {
    if (!out.empty()) std::memcpy(out.data(), blocks.data(), blocks.size());
    return;
  }
  BlockCursor in(blocks.data());
  for (float& value : out) value = dtype == DType::kF16 ? in.f16() : bf16_to_float(in.u16());
}

}  // namespace ibid
