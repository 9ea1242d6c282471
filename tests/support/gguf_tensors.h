// Tensors for GGUF files that tests write.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "weights/block_quantize.h"
#include "weights/gguf_writer.h"

namespace ibid {

// Adds a tensor of `values` encoded as F32, F16, BF16 or a quantised type that quantize_row() supports.
inline void add_tensor_of(GgufWriter& writer, std::string_view name, DType dtype, const Shape& shape,
                          std::span<const float> values) {
  CHECK_EQ(values.size(), shape.elements());
  const BlockSize block = dtype_block(dtype);
  std::vector<std::byte> data(values.size() / block.values * block.bytes);
  quantize_row(dtype, values, data);
  writer.add_tensor(name, dtype, shape, data);
}

}  // namespace ibid
