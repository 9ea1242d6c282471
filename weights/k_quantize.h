// Encoders of ggml's blocks of 256: Q4_K, Q5_K, Q6_K. Scales are searched for as ggml's quantize_row_*_ref does
// (https://github.com/ggml-org/ggml, src/ggml-quants.c), so that the error is what people know from these types.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace ibid {

// One block. Values must be finite. Stateless, thread-safe. REQUIRES: dtype is kQ4_K, kQ5_K or kQ6_K;
// block has its bytes.
void quantize_k_block(DType dtype, std::span<const float, 256> values, std::span<std::byte> block);

}  // namespace ibid
