// GgufRows: the rows of a tensor that is written to GGUF, read on demand from one or several tensors of a checkpoint.
// Used by gguf_tensors() (model/architectures/gguf_conversion.h).
//
// The checkpoint must outlive the objects. Immutable once built, so thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor_view.h"
#include "kernels/layout/panel.h"
#include "model/tensors/tensor_source.h"

namespace ibid {

// Rows of one tensor of the checkpoint.
class GgufPart {
 public:
  // heads: row i of each head is row heads[i] of that head in the checkpoint; empty: rows keep the checkpoint's order.
  // All numbers are multiplied by `factor`.
  GgufPart(TensorSource source, std::vector<size_t> heads, float factor = 1);
  // Returns a part with n copies of row 0 of the source.
  static GgufPart repeated(TensorSource source, size_t n);

  const TensorSource& source() const { return source_; }
  float factor() const { return factor_; }
  // True if rows are written as floats, because the checkpoint's block type cannot hold the changed numbers.
  bool becomes_floats() const;
  // Returns the index in the checkpoint's tensor of row `row` of this part (the index of a column if transposed).
  size_t source_row(size_t row) const;

  // read_rows() returns rows in the checkpoint's type, read_floats() as floats.
  void read_rows(std::span<const uint64_t> rows, std::byte* out) const;
  void read_floats(std::span<const uint64_t> rows, float* out) const;

 private:
  void read_stored(std::span<const uint64_t> rows, std::byte* out) const;
  size_t row_bytes() const;
  size_t head_bytes() const;

  TensorSource source_;
  std::vector<size_t> heads_;
  float factor_;
  bool is_repeated_ = false;
};

// A tensor whose rows come from several parts.
class GgufRows : public RowSource {
 public:
  // Appends all rows of a part.
  void add(GgufPart part);
  // Adds a part whose row i becomes row places.source_row(i) of the tensor. REQUIRES: after the last call the rows of
  // all parts fill 0, 1, 2, ... without gaps.
  void add(GgufPart part, const RowOrder& places);

  uint64_t n_rows() const { return ends_.empty() ? 0 : ends_.back(); }
  bool as_floats() const { return as_floats_; }
  // Type of the rows in the checkpoint. REQUIRES: n_rows() > 0.
  DType stored_type() const { return parts_.front().source().tensor.dtype; }

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override;
  std::vector<std::span<const std::byte>> parts() const override;

 private:
  std::vector<GgufPart> parts_;
  std::vector<uint64_t> ends_;
  std::vector<uint64_t> placed_;  // row i of the tensor is row placed_[i] of the concatenated parts; empty: same order
  bool as_floats_ = false;
};

}  // namespace ibid
