// Writes one safetensors file from tensors in memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/tensor_view.h"

namespace ibid {

struct NamedTensor {
  std::string name;
  TensorView view;
};

// Tensors are laid out in the given order, without holes; the same tensors give the same bytes.
// REQUIRES: names differ; dtypes are plain ones that the format knows.
// Error: kIo.
Status write_safetensors(const std::string& path, std::span<const NamedTensor> tensors);

}  // namespace ibid
