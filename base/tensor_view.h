// TensorView: a typed, shaped look at bytes that somebody else owns (a mapped file, an arena).
// It never owns and never allocates. Shapes are row-major, outermost dimension first: a linear
// layer's weight is [n_out, n_in], whatever order the file lists its dimensions in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"

namespace ibid {

inline constexpr size_t kMaxDims = 4;

// Up to four dimensions; rank 0 is a scalar.
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

struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> data;  // exactly the tensor's bytes; aligned as the file left them

  // Bytes of one row along the last dimension. REQUIRES: rank >= 1, the last dimension is whole blocks.
  size_t row_bytes() const {
    const BlockSize block = dtype_block(dtype);
    return shape[shape.rank - 1] / block.values * block.bytes;
  }
};

}  // namespace ibid
