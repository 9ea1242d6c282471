#include "weights/block_formats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/number_formats.h"
#include "weights/super_blocks.h"

namespace ibid {

namespace {

struct BlockOut {
  int8_t* codes;
  float* scales;
  float* mins;
};

// Unpacks 32 values: byte j holds values j (low nibble) and j + 16 (high); a set bit of `fifth` adds 16.
void unpack_nibbles(const uint8_t* qs, uint32_t fifth, int offset, int8_t* codes) {
  for (size_t i = 0; i < 32; ++i) {
    const int high_bit = static_cast<int>((fifth >> i) & 1u) << 4;
    codes[i] = static_cast<int8_t>((nibble(qs[i % 16], i >= 16) | high_bit) - offset);
  }
}

// Unpacks n values from n / 2 bytes: byte j holds the table indices of values j (low nibble) and j + n / 2 (high).
void unpack_table_nibbles(CodeTable table, const uint8_t* qs, size_t n, int8_t* codes) {
  const auto values = code_values(table);
  for (size_t i = 0; i < n; ++i) codes[i] = values[static_cast<size_t>(nibble(qs[i % (n / 2)], i >= n / 2))];
}

// Returns 2^(exponent - 128), half of the encoded scale, because the table kFp4 has doubled values. 255 is NaN, as in
// the specification (OCP Microscaling Formats 1.0, section 5.4.1); ggml reads 255 as 2^127.
float e8m0_half(uint8_t exponent) {
  if (exponent == 255) return std::numeric_limits<float>::quiet_NaN();
  if (exponent < 2) return std::bit_cast<float>(uint32_t{0x00200000} << exponent);  // subnormal
  return std::bit_cast<float>((uint32_t{exponent} - 1) << 23);
}

// Returns half of an unsigned E4M3 number, because the table kFp4 has doubled values. Ignores the sign and maps 127 to
// 0, as ggml does.
float ue4m3_half(uint8_t byte) {
  const uint8_t magnitude = byte & 0x7f;
  if (byte == 0x7f) return 0.0f;
  const int exponent = magnitude >> 3, mantissa = magnitude & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
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

// A scale is a 6-bit number minus 32. The low four bits of the eight scales are in four bytes, the high two bits in the
// word before these bytes.
SuperBlock split_iq4_xs(BlockCursor in, int8_t* codes) {
  SuperBlock block;
  block.d = in.u16();
  const unsigned high = in.u16();
  const uint8_t* low = in.bytes(4);
  for (size_t g = 0; g < 8; ++g, codes += 32) {
    const int scale = nibble(low[g / 2], g % 2 == 1) | static_cast<int>(high >> (2 * g) & 3) << 4;
    block.scales[g] = static_cast<int8_t>(scale - 32);
    unpack_table_nibbles(CodeTable::kIq4, in.bytes(16), 32, codes);
  }
  return block;
}

// A byte holds five base-3 digits as the fraction byte / 256: the first digit is the integer part of three times the
// fraction. 32 bytes hold values 0..159, 16 bytes values 160..239, and four bytes with four digits each the rest.
void unpack_tq1_0(BlockCursor in, BlockOut out) {
  constexpr struct { size_t bytes, digits; } kParts[] = {{32, 5}, {16, 5}, {4, 4}};
  int8_t* code = out.codes;
  for (const auto& part : kParts) {
    const uint8_t* packed = in.bytes(part.bytes);
    unsigned power = 1;
    for (size_t digit = 0; digit < part.digits; ++digit, power *= 3) {
      for (size_t i = 0; i < part.bytes; ++i) {
        const unsigned rest = packed[i] * power & 255u;
        *code++ = static_cast<int8_t>(static_cast<int>(rest * 3 >> 8) - 1);
      }
    }
  }
  std::fill_n(out.scales, 8, in.f16());
}

// A block has two halves of 128 values. In each half, 32 bytes hold four 2-bit planes of 32 values.
void unpack_tq2_0(BlockCursor in, BlockOut out) {
  const uint8_t* qs = in.bytes(64);
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128, plane = i % 128 / 32;
    out.codes[i] = static_cast<int8_t>(((qs[32 * half + i % 32] >> (2 * plane)) & 3) - 1);
  }
  std::fill_n(out.scales, 8, in.f16());
}

void unpack_iq4_nl(BlockCursor in, BlockOut out) {
  out.scales[0] = in.f16();
  unpack_table_nibbles(CodeTable::kIq4, in.bytes(16), 32, out.codes);
}

void unpack_mxfp4(BlockCursor in, BlockOut out) {
  out.scales[0] = e8m0_half(in.u8());
  unpack_table_nibbles(CodeTable::kFp4, in.bytes(16), 32, out.codes);
}

void unpack_nvfp4(BlockCursor in, BlockOut out) {
  const uint8_t* scales = in.bytes(4);
  for (size_t g = 0; g < 4; ++g) {
    out.scales[g] = ue4m3_half(scales[g]);
    unpack_table_nibbles(CodeTable::kFp4, in.bytes(8), 16, out.codes + 16 * g);
  }
}

using SplitBlock = SuperBlock (*)(BlockCursor in, int8_t* codes);

struct Decoder {
  DType dtype;
  void (*unpack)(BlockCursor, BlockOut);
  SplitBlock split = nullptr;  // used instead of `unpack` if a block has an FP16 scale, and each group an integer
};

// In the order of DType.
constexpr Decoder kDecoders[] = {
    {DType::kQ4_0, unpack_q4_0},
    {DType::kQ4_1, unpack_q4_1},
    {DType::kQ5_0, unpack_q5_0},
    {DType::kQ5_1, unpack_q5_1},
    {DType::kQ8_0, unpack_q8_0},
    {DType::kQ2_K, nullptr, split_q2_k},
    {DType::kQ3_K, nullptr, split_q3_k},
    {DType::kQ4_K, nullptr, split_q4_k},
    {DType::kQ5_K, nullptr, split_q5_k},
    {DType::kQ6_K, nullptr, split_q6_k},
    {DType::kTQ1_0, unpack_tq1_0},
    {DType::kTQ2_0, unpack_tq2_0},
    {DType::kIQ1_S, nullptr, split_iq1_s},
    {DType::kIQ1_M, nullptr, split_iq1_m},
    {DType::kIQ2_XXS, nullptr, split_iq2_xxs},
    {DType::kIQ2_XS, nullptr, split_iq2_xs},
    {DType::kIQ2_S, nullptr, split_iq2_s},
    {DType::kIQ3_XXS, nullptr, split_iq3_xxs},
    {DType::kIQ3_S, nullptr, split_iq3_s},
    {DType::kIQ4_XS, nullptr, split_iq4_xs},
    {DType::kIQ4_NL, unpack_iq4_nl},
    {DType::kMXFP4, unpack_mxfp4},
    {DType::kNVFP4, unpack_nvfp4},
};
static_assert(std::size(kDecoders) == kDTypeCount - static_cast<size_t>(DType::kQ4_0));

const Decoder& decoder_of(DType dtype) {
  CHECK(dtype_is_quantized(dtype)) << dtype_name(dtype);
  const Decoder& decoder = kDecoders[static_cast<size_t>(dtype) - static_cast<size_t>(DType::kQ4_0)];
  DCHECK(decoder.dtype == dtype);
  return decoder;
}

void unpack_block(const Decoder& decoder, const QuantLayout& layout, const std::byte* at, BlockOut out) {
  const BlockCursor in(at);
  if (decoder.split == nullptr) return decoder.unpack(in, out);
  const SuperBlock block = decoder.split(in, out.codes);
  const float d = fp16_to_float(block.d) * (layout.scales == ScaleKind::kEighthByCode ? 0.125f : 1.0f);
  const float dmin = fp16_to_float(block.dmin);
  for (size_t g = 0; g < kMaxValuesPerBlock / layout.group_size; ++g) {
    out.scales[g] = d * static_cast<float>(block.scales[g]);
    if (layout.has_mins) out.mins[g] = -(dmin * static_cast<float>(block.mins[g]));
  }
}

// Returns the number of blocks in a row of `values` values. CHECKs that `bytes` is exactly their size.
size_t checked_blocks(DType dtype, size_t values, size_t bytes) {
  const BlockSize block = dtype_block(dtype);
  CHECK_EQ(values % block.values, size_t{0});
  CHECK_EQ(bytes, values / block.values * block.bytes);
  return values / block.values;
}

void dequantize_quantized(DType dtype, std::span<const std::byte> blocks, std::span<float> out) {
  const Decoder& decoder = decoder_of(dtype);
  const QuantLayout layout = quant_layout(dtype);
  const BlockSize size = dtype_block(dtype);
  const size_t n_blocks = checked_blocks(dtype, out.size(), blocks.size());
  std::array<int8_t, kMaxValuesPerBlock> codes;
  std::array<float, kMaxGroupsPerBlock> scales, mins;
  for (size_t b = 0; b < n_blocks; ++b) {
    unpack_block(decoder, layout, blocks.data() + b * size.bytes, {codes.data(), scales.data(), mins.data()});
    for (size_t begin = 0, group = 0; begin < size.values; begin += layout.group_size, ++group) {
      float* values = out.data() + b * size.values + begin;
      for (size_t i = 0; i < layout.group_size; ++i) values[i] = scales[group] * static_cast<float>(codes[begin + i]);
      if (!layout.has_mins) continue;
      for (size_t i = 0; i < layout.group_size; ++i) values[i] += mins[group];
    }
  }
}

void dequantize_scaled(DType dtype, std::span<const std::byte> blocks, std::span<float> out) {
  const BlockSize size = dtype_block(dtype);
  const size_t n_blocks = checked_blocks(dtype, out.size(), blocks.size());
  for (size_t b = 0; b < n_blocks; ++b) {
    BlockCursor in(blocks.data() + b * size.bytes);
    const float scale = std::bit_cast<float>(in.u32());
    for (float& value : out.subspan(b * size.values, size.values)) {
      const uint8_t byte = in.u8();
      value = scale * (dtype == DType::kF8E4M3Scaled ? e4m3_to_float(byte) : e5m2_to_float(byte));
    }
  }
}

}  // namespace

void unpack_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes, std::span<float> scales,
                std::span<float> mins) {
  const Decoder& decoder = decoder_of(dtype);
  const QuantLayout layout = quant_layout(dtype);
  const BlockSize size = dtype_block(dtype);
  const size_t n_blocks = checked_blocks(dtype, codes.size(), blocks.size());
  const size_t groups_per_block = size.values / layout.group_size;
  CHECK_EQ(scales.size(), n_blocks * groups_per_block);
  CHECK_EQ(mins.size(), layout.has_mins ? scales.size() : size_t{0});
  for (size_t b = 0; b < n_blocks; ++b) {
    float* block_mins = layout.has_mins ? mins.data() + b * groups_per_block : nullptr;
    unpack_block(decoder, layout, blocks.data() + b * size.bytes,
                 {codes.data() + b * size.values, scales.data() + b * groups_per_block, block_mins});
  }
}

bool has_super_scales(DType dtype) { return dtype_is_quantized(dtype) && decoder_of(dtype).split != nullptr; }

void unpack_super_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes, const SuperScales& out) {
  CHECK(has_super_scales(dtype)) << dtype_name(dtype);
  const Decoder& decoder = decoder_of(dtype);
  const QuantLayout layout = quant_layout(dtype);
  const size_t n_blocks = checked_blocks(dtype, codes.size(), blocks.size());
  const size_t groups = kMaxValuesPerBlock / layout.group_size;
  CHECK(out.d.size() == n_blocks && out.scales.size() == n_blocks * groups) << dtype_name(dtype);
  CHECK(!layout.has_mins || (out.dmin.size() == n_blocks && out.mins.size() == n_blocks * groups)) << dtype_name(dtype);
  for (size_t b = 0; b < n_blocks; ++b) {
    const BlockCursor in(blocks.data() + b * dtype_block(dtype).bytes);
    const SuperBlock block = decoder.split(in, codes.data() + b * kMaxValuesPerBlock);
    out.d[b] = block.d;
    std::memcpy(&out.scales[b * groups], block.scales.data(), groups);
    if (!layout.has_mins) continue;
    out.dmin[b] = block.dmin;
    std::memcpy(&out.mins[b * groups], block.mins.data(), groups);
  }
}

void dequantize_row(DType dtype, std::span<const std::byte> blocks, std::span<float> out) {
  if (dtype_is_quantized(dtype)) return dequantize_quantized(dtype, blocks, out);
  if (dtype == DType::kF8E4M3Scaled || dtype == DType::kF8E5M2Scaled) return dequantize_scaled(dtype, blocks, out);
  CHECK(can_dequantize(dtype)) << dtype_name(dtype);
  checked_blocks(dtype, out.size(), blocks.size());
  if (blocks.empty()) return;
  if (dtype == DType::kF32) return static_cast<void>(std::memcpy(out.data(), blocks.data(), blocks.size()));
  BlockCursor in(blocks.data());
  const auto fill = [&](auto read) { std::ranges::generate(out, read); };
  if (dtype == DType::kF16) return fill([&] { return in.f16(); });
  if (dtype == DType::kBF16) return fill([&] { return bf16_to_float(in.u16()); });
  fill([&] { return in.f64(); });
}

void dequantize_tensor(const TensorView& tensor, std::span<float> out) {
  if (tensor.source == nullptr) return dequantize_row(tensor.dtype, tensor.data, out);
  const size_t n_cols = tensor.shape[tensor.shape.rank - 1];
  std::vector<std::byte> row(tensor.row_bytes());
  uint64_t index = tensor.first_row;
  for (size_t at = 0; at < out.size(); at += n_cols, ++index) {
    tensor.source->read_rows({&index, 1}, row.data());
    dequantize_row(tensor.dtype, row, out.subspan(at, n_cols));
  }
}

}  // namespace ibid
