// Random blocks of quantised types for which ibid has no encoder: random codes with scales of a chosen size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace ibid {

// Returns blocks of n_values values with a root mean square of approximately `rms`; the same on every machine.
// n_values: a multiple of the block size.
// REQUIRES: a TQ, IQ, MXFP4 or NVFP4 type.
std::vector<std::byte> random_blocks(DType dtype, size_t n_values, float rms, uint64_t seed);

}  // namespace ibid
