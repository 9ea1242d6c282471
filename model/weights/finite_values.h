// Checks whether weights are finite, by their bits: without comparing a NaN, and without decoding blocks.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace ibid {

bool all_finite(std::span<const float> values);

// True if dequantize_row() makes finite numbers alone of a row as its file has it.
// REQUIRES: can_dequantize(dtype); row is whole blocks.
bool all_finite(DType dtype, std::span<const std::byte> row);

}  // namespace ibid
