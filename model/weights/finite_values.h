// Checks by their bits whether floats are finite, without comparing a NaN and without arithmetic.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace ibid {

bool all_finite(std::span<const float> values);

// Checks a row of a tensor as its file has it. REQUIRES: F32, F16, BF16, or floats of a byte with scales.
bool all_finite(DType dtype, std::span<const std::byte> row);

}  // namespace ibid
