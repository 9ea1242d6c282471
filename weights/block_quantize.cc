#include "weights/block_quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace ibid {

namespace {

// Writes the fields of one block in order.
class BlockWriter {
 public:
  explicit BlockWriter(std::byte* at) : at_(at) {}

  void u8(int value) { *at_++ = static_cast<std::byte>(value); }
  void f16(float value) { raw(float_to_fp16(value)); }
  template <typename T>
  void raw(T value) {
    std::memcpy(at_, &value, sizeof(value));
    at_ += sizeof(value);
  }

 private:
  std::byte* at_;
};

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

// Q4_K and Q5_K: a scale and a non-positive min per 32 values, each as 6 bits of a block-wide f16.
void encode_k(bool fifth, std::span<const float, 256> x, BlockWriter out) {
  const int max_code = fifth ? 31 : 15;
  std::array<float, 8> scale, min;
  for (size_t g = 0; g < 8; ++g) {
    const auto group = x.subspan(32 * g, 32);
    const auto [low, high] = std::minmax_element(group.begin(), group.end());
    min[g] = std::max(0.0f, -*low);
    scale[g] = (std::max(*high, -min[g]) + min[g]) / static_cast<float>(max_code);
  }
  const float d = fp16_to_float(float_to_fp16(*std::max_element(scale.begin(), scale.end()) / 63.0f));
  const float dmin = fp16_to_float(float_to_fp16(*std::max_element(min.begin(), min.end()) / 63.0f));
  std::array<int, 8> sc, mn;
  std::array<int, 256> codes;
  for (size_t g = 0; g < 8; ++g) {
    sc[g] = std::clamp(static_cast<int>(std::round(scale[g] * inverse(d))), 0, 63);
    mn[g] = std::clamp(static_cast<int>(std::round(min[g] * inverse(dmin))), 0, 63);
    const float id = inverse(d * static_cast<float>(sc[g]));
    for (size_t i = 32 * g; i < 32 * (g + 1); ++i) {
      codes[i] = std::clamp(static_cast<int>(std::round((x[i] + dmin * static_cast<float>(mn[g])) * id)), 0,
                            max_code);
    }
  }
  out.f16(d);
  out.f16(dmin);
  for (size_t g = 0; g < 4; ++g) out.u8(sc[g] | ((sc[g + 4] >> 4) << 6));
  for (size_t g = 0; g < 4; ++g) out.u8(mn[g] | ((mn[g + 4] >> 4) << 6));
  for (size_t g = 0; g < 4; ++g) out.u8((sc[g + 4] & 15) | ((mn[g + 4] & 15) << 4));
  for (size_t l = 0; fifth && l < 32; ++l) {
    int bits = 0;
    for (size_t g = 0; g < 8; ++g) bits |= (codes[32 * g + l] >> 4) << g;
    out.u8(bits);
  }
  for (size_t i = 0; i < 128; ++i) {
    const size_t low = 64 * (i / 32) + i % 32;
    out.u8((codes[low] & 15) | ((codes[low + 32] & 15) << 4));
  }
}

void encode_q6_k(std::span<const float, 256> x, BlockWriter out) {
  std::array<float, 16> scale;
  for (size_t g = 0; g < 16; ++g) scale[g] = extreme(x.subspan(16 * g, 16)) / -32.0f;
  const float d = fp16_to_float(float_to_fp16(extreme(scale) / -128.0f));
  std::array<int, 16> sc;
  std::array<int, 256> codes;
  for (size_t g = 0; g < 16; ++g) {
    sc[g] = std::clamp(static_cast<int>(std::round(scale[g] * inverse(d))), -128, 127);
    const float id = inverse(d * static_cast<float>(sc[g]));
    for (size_t i = 16 * g; i < 16 * (g + 1); ++i) {
      codes[i] = std::clamp(static_cast<int>(std::round(x[i] * id)), -32, 31) + 32;
    }
  }
  for (size_t i = 0; i < 128; ++i) {
    const size_t low = 128 * (i / 64) + i % 64;
    out.u8((codes[low] & 15) | ((codes[low + 64] & 15) << 4));
  }
  for (size_t i = 0; i < 64; ++i) {
    int bits = 0;
    for (size_t plane = 0; plane < 4; ++plane)
      bits |= (codes[128 * (i / 32) + 32 * plane + i % 32] >> 4) << (2 * plane);
    out.u8(bits);
  }
  for (const int value : sc) out.u8(value);
  out.f16(d);
}

void encode_block(DType dtype, std::span<const float> x, BlockWriter out) {
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
    case DType::kQ5_K: return encode_k(dtype == DType::kQ5_K, x.first<256>(), out);
    case DType::kQ6_K: return encode_q6_k(x.first<256>(), out);
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
                 BlockWriter(blocks.data() + b * size.bytes));
  }
}

}  // namespace ibid
