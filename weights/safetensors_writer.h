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

// Writes tensors in the given order, without gaps; the output is deterministic. REQUIRES: names are unique; the dtypes
// exist in safetensors. Error: kIo.
Status write_safetensors(const std::string& path, std::span<const NamedTensor> tensors);

}  // namespace ibid
