#include "tests/support/random_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/check.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

// Offset of the FP16 scale of a block, and the largest value of a block whose scale is 1.
struct HalfField {
  DType dtype;
  size_t at;
  float largest;
};

constexpr HalfField kHalfFields[] = {
    {DType::kTQ1_0, 52, 1},
    {DType::kTQ2_0, 64, 2},
    {DType::kIQ1_S, 0, 15 * 9 / 8.0f},
    {DType::kIQ2_XXS, 0, 31 * 43 / 8.0f},
    {DType::kIQ2_XS, 0, 31 * 43 / 8.0f},
    {DType::kIQ2_S, 0, 31 * 43 / 8.0f},
    {DType::kIQ3_XXS, 0, 62 * 62 / 8.0f},
    {DType::kIQ3_S, 0, 31 * 15},
    {DType::kIQ4_XS, 0, 32 * 127},
    {DType::kIQ4_NL, 0, 127},
    {DType::kQ2_K, 80, 3 * 15},
    {DType::kQ3_K, 108, 4 * 32},
};

void set_scale(DType dtype, float spread, std::byte* block) {
  if (dtype == DType::kMXFP4) {
    block[0] = static_cast<std::byte>(128 + static_cast<int>(std::floor(std::log2(spread / 12))));
    return;
  }
  if (dtype == DType::kNVFP4) {  // set only the exponent; mantissas stay random
    const int exponent = 7 + static_cast<int>(std::floor(std::log2(spread / 12)));
    for (size_t g = 0; g < 4; ++g) {
      block[g] = (block[g] & std::byte{7}) | static_cast<std::byte>(std::max(exponent, 0) << 3);
    }
    return;
  }
  if (dtype == DType::kIQ1_M) {  // the half is in the high nibbles of the last four words
    const unsigned half = float_to_fp16(spread * 8 / (15 * 9));
    for (unsigned w = 0; w < 4; ++w) {
      std::byte& high = block[48 + 2 * w + 1];
      high = (high & std::byte{15}) | static_cast<std::byte>((half >> (4 * w) & 15u) << 4);
    }
    return;
  }
  const auto* field = std::ranges::find(kHalfFields, dtype, &HalfField::dtype);
  CHECK(field != std::end(kHalfFields)) << dtype_name(dtype);
  const uint16_t half = float_to_fp16(spread / field->largest);
  std::memcpy(block + field->at, &half, sizeof half);
  if (dtype != DType::kQ2_K) return;
  const uint16_t min = float_to_fp16(1.5f * spread / field->largest);  // so the mean of values is 0
  std::memcpy(block + field->at + sizeof half, &min, sizeof min);
}

float rms_of(DType dtype, const std::vector<std::byte>& blocks, size_t n_values) {
  std::vector<float> values(n_values);
  dequantize_row(dtype, blocks, values);
  double squares = 0;
  for (const float value : values) squares += double{value} * double{value};
  return static_cast<float>(std::sqrt(squares / static_cast<double>(n_values)));
}

}  // namespace

std::vector<std::byte> random_blocks(DType dtype, size_t n_values, float rms, uint64_t seed) {
  const BlockSize size = dtype_block(dtype);
  std::vector<std::byte> blocks(n_values / size.values * size.bytes);
  std::mt19937_64 rng(seed);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(rng() & 255u);
  const auto set_scales = [&](float spread) {
    for (size_t at = 0; at < blocks.size(); at += size.bytes) set_scale(dtype, spread, &blocks[at]);
  };
  set_scales(1.0f);
  set_scales(rms / rms_of(dtype, blocks, n_values));
  return blocks;
}

}  // namespace ibid
