// Encoders of ggml's block formats, for tests and conversion. Deterministic; for the types of 32 values they write
// ggml's own bytes, for the K types they search for scales as ggml does.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace ibid {

// Encodes `values` as whole blocks of `dtype`: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or
// Q6_K. Values must be finite. Stateless, thread-safe. REQUIRES: values.size() is a whole number of blocks
// and blocks.size() is exactly their bytes.
void quantize_row(DType dtype, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace ibid
