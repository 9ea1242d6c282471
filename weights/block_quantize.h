// Encoders of ggml's block formats, for tests and conversion. Deterministic. Blocks of 32 values equal ggml's byte for
// byte. For the K types scales are searched as by ggml, and then refined for Q4_K and Q5_K.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace ibid {

// Encodes `values` as blocks of `dtype`: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K. Stateless,
// thread-safe. REQUIRES: values are finite; values.size() is a whole number of blocks and blocks.size() exactly their
// bytes.
void quantize_row(DType dtype, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace ibid
