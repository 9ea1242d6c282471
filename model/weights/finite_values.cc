#include "model/weights/finite_values.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"

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

// Blocks of a scale and 32 codes.
bool scaled_are_finite(std::span<const std::byte> row, uint8_t mask) {
  constexpr size_t kCodes = 32;
  for (; !row.empty(); row = row.subspan(sizeof(float) + kCodes)) {
    float scale;
    std::memcpy(&scale, row.data(), sizeof scale);
    if (!std::isfinite(scale)) return false;
    if (any_has<uint8_t>(row.subspan(sizeof scale, kCodes), mask)) return false;
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
    case DType::kF8E4M3Scaled: return scaled_are_finite(row, 0x7f);
    case DType::kF8E5M2Scaled: return scaled_are_finite(row, 0x7c);
    default: break;
  }
  CHECK(false) << dtype_name(dtype);
  return false;
}

}  // namespace ibid
