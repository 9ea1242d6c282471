#include "weights/block_quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "weights/block_writer.h"
#include "weights/k_quantize.h"

namespace ibid {

namespace {

using Block32 = std::span<const float, 32>;
using Codes32 = std::array<int, 32>;

// 1 / d as the reference encoders have it: 0 where every value is 0.
float inverse(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }

// The element of largest magnitude, with its sign.
float extreme(std::span<const float> x) {
  return *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

void put_nibbles(BlockWriter& out, const Codes32& codes) {
  for (size_t j = 0; j < 16; ++j) out.u8((codes[j] & 15) | ((codes[j + 16] & 15) << 4));
}

void put_fifth_bits(BlockWriter& out, const Codes32& codes) {
  uint32_t bits = 0;
  for (size_t i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4) << i;
  out.raw(bits);
}

// Codes 0..2 * half - 1 around `half`; the value of largest magnitude becomes code 0.
Codes32 symmetric_codes(Block32 x, int half, float* d) {
  *d = extreme(x) / static_cast<float>(-half);
  const float id = inverse(*d);
  Codes32 codes;
  for (size_t i = 0; i < 32; ++i) {
    codes[i] = std::min(2 * half - 1, static_cast<int>(x[i] * id + static_cast<float>(half) + 0.5f));
  }
  return codes;
}

// Codes 0..max_code from the smallest value to the largest.
Codes32 ranged_codes(Block32 x, int max_code, float* d, float* min) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  *min = *low;
  *d = (*high - *low) / static_cast<float>(max_code);
  const float id = inverse(*d);
  Codes32 codes;
  for (size_t i = 0; i < 32; ++i) codes[i] = std::min(max_code, static_cast<int>((x[i] - *low) * id + 0.5f));
  return codes;
}

void encode_32(DType dtype, Block32 x, BlockWriter out) {
  float d = 0, min = 0;
  if (dtype == DType::kQ8_0) {
    d = std::fabs(extreme(x)) / 127.0f;
    const float id = inverse(d);
    out.f16(d);
    for (const float value : x) out.u8(static_cast<int>(std::round(value * id)));
    return;
  }
  const bool fifth = dtype == DType::kQ5_0 || dtype == DType::kQ5_1;
  const bool ranged = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
  const int half = fifth ? 16 : 8;
  const Codes32 codes = ranged ? ranged_codes(x, 2 * half - 1, &d, &min) : symmetric_codes(x, half, &d);
  out.f16(d);
  if (ranged) out.f16(min);
  if (fifth) put_fifth_bits(out, codes);
  put_nibbles(out, codes);
}

void encode_block(DType dtype, std::span<const float> x, std::span<std::byte> block) {
  BlockWriter out(block.data());
  switch (dtype) {
    case DType::kF32: return out.raw(x[0]);
    case DType::kF16: return out.f16(x[0]);
    case DType::kBF16: return out.raw(to_bf16(x[0]));
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0: return encode_32(dtype, Block32(x), out);
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K: return quantize_k_block(dtype, x.first<256>(), block);
    default: CHECK(false) << "no encoder for " << dtype_name(dtype);
  }
}

}  // namespace

void quantize_row(DType dtype, std::span<const float> values, std::span<std::byte> blocks) {
  const BlockSize size = dtype_block(dtype);
  CHECK_EQ(values.size() % size.values, size_t{0});
  CHECK_EQ(blocks.size(), values.size() / size.values * size.bytes);
  for (size_t b = 0; b * size.values < values.size(); ++b) {
    encode_block(dtype, values.subspan(b * size.values, size.values),
                 blocks.subspan(b * size.bytes, size.bytes));
  }
}

}  // namespace ibid
