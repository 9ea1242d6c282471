// Matrices of floats of a byte (safetensors F8_E4M3, F8_E5M2) with one scale for all, for each row, or for each block.
#pragma once

#include "weights/made_tensors.h"

namespace ibid {

// `codes` is a matrix, `scale` its scales or nullptr. Errors: kBadShape, kBadType, kNonFinite.
Result<MadeTensor> make_fp8(const std::string& name, const TensorView& codes, const TensorView* scale,
                            const QuantizationConfig& config, std::string_view path);

}  // namespace ibid
