#include "base/dtype.h"

#include "base/number_formats.h"

namespace ibid {

std::string_view dtype_name(DType dtype) { return number_format(dtype).name; }
BlockSize dtype_block(DType dtype) { return number_format(dtype).block; }

float fp16_to_float(uint16_t bits) {
  const uint32_t sign = (uint32_t{bits} & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24, exact in float.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t float_to_fp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 2^16 or is infinite
  if (magnitude < 0x38800000u) {  // below 2^-14: a subnormal half, in units of 2^-24
    // Adding 0.5f leaves the value in the low mantissa bits, rounded to nearest even by the adder.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t round = 0x0fffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((magnitude + round - 0x38000000u) >> 13));
}

}  // namespace ibid
