// TensorView: a typed, shaped view of bytes owned elsewhere (a mapped file, an arena). Never owns and never allocates.
// Shapes are row-major, outermost dimension first: a linear layer's weight is [n_out, n_in], whatever the order in the
// file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace ibid {

inline constexpr size_t kMaxDims = 5;  // video models have 5-D convolutions

// Up to kMaxDims dimensions; rank 0 is a scalar.
struct Shape {
  std::array<uint64_t, kMaxDims> dims{};
  size_t rank = 0;

  uint64_t operator[](size_t i) const { return dims[i]; }
  uint64_t elements() const {
    uint64_t n = 1;
    for (size_t i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  bool operator==(const Shape&) const = default;
  std::string to_string() const;  // "[49152, 576]"
};

// The rows of a tensor that is not in the file as one tensor: the rows are assembled from other tensors when they are
// read. Immutable, so thread-safe. Owned by the model file.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Reads the given rows, numbered over all dimensions but the last, in the tensor's dtype. Writes row_bytes() bytes
  // for each, contiguously.
  virtual void read_rows(std::span<const uint64_t> rows, std::byte* out) const = 0;
  // The parts of the file from which the rows are assembled.
  virtual std::vector<std::span<const std::byte>> parts() const = 0;
};

struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> data;  // the tensor's bytes, aligned as in the file; empty if source is set
  const RowSource* source = nullptr;
  uint64_t first_row = 0;  // index of the first row in `source`

  // Bytes of one row along the last dimension. REQUIRES: rank >= 1; the last dimension is a multiple of the block size.
  size_t row_bytes() const {
    const BlockSize block = dtype_block(dtype);
    return shape[shape.rank - 1] / block.values * block.bytes;
  }

  // Total bytes of the rows, whether stored or assembled. REQUIRES: as for row_bytes(), or rank 0.
  uint64_t bytes() const {
    const BlockSize block = dtype_block(dtype);
    return shape.elements() / block.values * block.bytes;
  }

  // Rows [first, first + n) as a matrix. REQUIRES: rank >= 1; the rows exist.
  TensorView row_range(uint64_t first, uint64_t n) const;
};

}  // namespace ibid
