// TensorView: a typed, shaped look at bytes that somebody else owns (a mapped file, an arena).
// It never owns and never allocates. Shapes are row-major, outermost dimension first: a linear
// layer's weight is [n_out, n_in], whatever order the file lists its dimensions in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace ibid {

inline constexpr size_t kMaxDims = 5;  // models that see films have convolutions with five

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

// The rows of a tensor that no file holds as it is: they are put together from other tensors when they are read.
// Immutable, so safe to use from several threads. It belongs to the model file.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Rows of the tensor, counted along all dimensions but the last, in its dtype: row_bytes() each, side by side.
  virtual void read_rows(std::span<const uint64_t> rows, std::byte* out) const = 0;
  // The bytes of the file that the rows are made from.
  virtual std::vector<std::span<const std::byte>> parts() const = 0;
};

struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> data;   // exactly the tensor's bytes, aligned as the file left them; empty with a source
  const RowSource* source = nullptr;
  uint64_t first_row = 0;            // of the source's rows

  // Bytes of one row along the last dimension. REQUIRES: rank >= 1, the last dimension is whole blocks.
  size_t row_bytes() const {
    const BlockSize block = dtype_block(dtype);
    return shape[shape.rank - 1] / block.values * block.bytes;
  }

  // What the rows take, whether they lie in a file or are made. REQUIRES: as for row_bytes(), or a scalar.
  uint64_t bytes() const {
    const BlockSize block = dtype_block(dtype);
    return shape.elements() / block.values * block.bytes;
  }

  // n of the rows as a matrix. REQUIRES: rank >= 1, there are that many.
  TensorView row_range(uint64_t first, uint64_t n) const;
};

}  // namespace ibid
