// Blocks of quantised types that no encoder of ibid writes: random codes under scales of a chosen size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace ibid {

// Whole blocks of n_values values whose root mean square is about `rms`; the same on every machine. n_values: whole
// blocks.
// REQUIRES: a TQ, IQ, MXFP4 or NVFP4 type.
std::vector<std::byte> random_blocks(DType dtype, size_t n_values, float rms, uint64_t seed);

}  // namespace ibid
