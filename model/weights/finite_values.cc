#include "model/weights/finite_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/dtype.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

// Whether some number of the row has all bits of `mask` set: the exponent of infinities and NaN. Without a branch, so
// that vectors do it.
template <typename Bits>
bool any_has(std::span<const std::byte> row, Bits mask) {
  const std::byte* at = row.data();
  const size_t n = row.size() / sizeof(Bits);
  Bits any = 0;
  for (size_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, at + i * sizeof bits, sizeof bits);
    any = static_cast<Bits>(any | ((bits & mask) == mask ? 1 : 0));
  }
  return any != 0;
}

uint16_t half_at(const std::byte* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

bool half_is_finite(uint16_t bits) { return (bits & 0x7c00) != 0x7c00; }

bool decoded_is_finite(DType dtype, std::span<const std::byte> block) {
  std::array<float, kMaxValuesPerBlock> values;
  const std::span<float> decoded = std::span(values).first(dtype_block(dtype).values);
  dequantize_row(dtype, block, decoded);
  return all_finite(decoded);
}

// Blocks of a scale and 32 codes.
bool scaled_are_finite(DType dtype, std::span<const std::byte> row, uint8_t mask) {
  constexpr size_t kCodes = 32;
  constexpr float kSmall = std::numeric_limits<float>::max() / 65536;  // no code is as large as 65,536
  for (; !row.empty(); row = row.subspan(sizeof(float) + kCodes)) {
    float scale;
    std::memcpy(&scale, row.data(), sizeof scale);
    if (!std::isfinite(scale)) return false;
    if (any_has<uint8_t>(row.subspan(sizeof scale, kCodes), mask)) return false;
    if (std::fabs(scale) > kSmall && !decoded_is_finite(dtype, row.first(sizeof scale + kCodes))) return false;
  }
  return true;
}

// Where a block has the halves that all of its numbers are made with: n of them from `first` on. Integers that these
// are multiplied by are too small to make an infinity of a half.
struct BlockHalves {
  DType dtype;
  size_t first, n;
};
constexpr BlockHalves kHalves[] = {
    {DType::kQ4_0, 0, 1},    {DType::kQ4_1, 0, 2},    {DType::kQ5_0, 0, 1},   {DType::kQ5_1, 0, 2},
    {DType::kQ8_0, 0, 1},    {DType::kQ2_K, 80, 2},   {DType::kQ3_K, 108, 1}, {DType::kQ4_K, 0, 2},
    {DType::kQ5_K, 0, 2},    {DType::kQ6_K, 208, 1},  {DType::kTQ1_0, 52, 1}, {DType::kTQ2_0, 64, 1},
    {DType::kIQ1_S, 0, 1},   {DType::kIQ2_XXS, 0, 1}, {DType::kIQ2_XS, 0, 1}, {DType::kIQ2_S, 0, 1},
    {DType::kIQ3_XXS, 0, 1}, {DType::kIQ3_S, 0, 1},   {DType::kIQ4_XS, 0, 1}, {DType::kIQ4_NL, 0, 1},
};

bool halves_are_finite(const BlockHalves& halves, std::span<const std::byte> row) {
  const size_t block = dtype_block(halves.dtype).bytes;
  unsigned bad = 0;
  for (size_t at = halves.first; at < row.size(); at += block) {
    for (size_t i = 0; i < halves.n; ++i) bad |= half_is_finite(half_at(&row[at + 2 * i])) ? 0u : 1u;
  }
  return bad == 0;
}

// The half of IQ1_M is in the upper four bits of the four words at the end of a block; only those of the last word have
// its exponent's upper bits, the one before has the lowest.
bool iq1_m_is_finite(std::span<const std::byte> row) {
  constexpr size_t kBlock = 56, kLast = 54, kBefore = 52;
  for (size_t at = 0; at < row.size(); at += kBlock) {
    const auto upper = static_cast<unsigned>(half_at(&row[at + kLast])) >> 12;
    const auto lower = static_cast<unsigned>(half_at(&row[at + kBefore])) >> 12;
    if (!half_is_finite(static_cast<uint16_t>(upper << 12 | lower << 8))) return false;
  }
  return true;
}

// The largest powers of two make infinities of some codes.
bool mxfp4_is_finite(std::span<const std::byte> row) {
  constexpr size_t kBlock = 17;
  constexpr auto kLarge = std::byte{253};
  for (; !row.empty(); row = row.subspan(kBlock)) {
    if (row.front() >= kLarge && !decoded_is_finite(DType::kMXFP4, row.first(kBlock))) return false;
  }
  return true;
}

bool doubles_are_finite(std::span<const std::byte> row) {
  for (size_t at = 0; at < row.size(); at += sizeof(double)) {
    double value;
    std::memcpy(&value, &row[at], sizeof value);
    if (!std::isfinite(static_cast<float>(value))) return false;
  }
  return true;
}

}  // namespace

bool all_finite(std::span<const float> values) { return all_finite(DType::kF32, std::as_bytes(values)); }

bool all_finite(DType dtype, std::span<const std::byte> row) {
  switch (dtype) {
    case DType::kF32: return !any_has<uint32_t>(row, 0x7f800000);
    case DType::kF16: return !any_has<uint16_t>(row, 0x7c00);
    case DType::kBF16: return !any_has<uint16_t>(row, 0x7f80);
    case DType::kF64: return doubles_are_finite(row);
    case DType::kF8E4M3Scaled: return scaled_are_finite(dtype, row, 0x7f);
    case DType::kF8E5M2Scaled: return scaled_are_finite(dtype, row, 0x7c);
    case DType::kIQ1_M: return iq1_m_is_finite(row);
    case DType::kMXFP4: return mxfp4_is_finite(row);
    case DType::kNVFP4: return true;  // its scales have no bits for an infinity, and 127 is 0
    default: break;
  }
  const auto* halves = std::ranges::find(kHalves, dtype, &BlockHalves::dtype);
  CHECK(halves != std::end(kHalves)) << dtype_name(dtype);
  return halves_are_finite(*halves, row);
}

}  // namespace ibid
