// The rows of a tensor that is written to GGUF: those of one or several places in a checkpoint, read when they are
// asked for. A part of gguf_tensors() (model/architectures/gguf_conversion.h).
//
// The checkpoint must outlive them. Immutable once made, so safe to use from several threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor_view.h"
#include "kernels/layout/panel.h"
#include "model/tensors/tensor_source.h"

namespace ibid {

// Rows of one place in the checkpoint.
class GgufPart {
 public:
  // Row i of a head is row heads[i] of it in the checkpoint; empty: rows stand as they are there. Every number is
  // multiplied by `factor`.
  GgufPart(TensorSource source, std::vector<size_t> heads, float factor = 1);
  // Row 0 of the source, n times.
  static GgufPart repeated(TensorSource source, size_t n);

  const TensorSource& source() const { return source_; }
  float factor() const { return factor_; }
  // Whether blocks of the checkpoint's type do not hold what is written, so that rows become floats.
  bool becomes_floats() const;
  // The row of the checkpoint's tensor (its column where that is transposed).
  size_t source_row(size_t row) const;

  // In the checkpoint's type, or in floats.
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

// The rows of several parts.
class GgufRows : public RowSource {
 public:
  // Behind those that are there.
  void add(GgufPart part);
  // Row i of the part becomes row places.source_row(i). REQUIRES: the rows of all parts together are 0, 1, 2, ..
  void add(GgufPart part, const RowOrder& places);

  uint64_t n_rows() const { return ends_.empty() ? 0 : ends_.back(); }
  bool as_floats() const { return as_floats_; }
  // In the checkpoint. REQUIRES: n_rows() > 0.
  DType stored_type() const { return parts_.front().source().tensor.dtype; }

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override;
  std::vector<std::span<const std::byte>> parts() const override;

 private:
  std::vector<GgufPart> parts_;
  std::vector<uint64_t> ends_;
  std::vector<uint64_t> placed_;  // of each row, which of the parts' it is; empty: they follow each other
  bool as_floats_ = false;
};

}  // namespace ibid
