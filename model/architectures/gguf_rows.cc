#include "model/architectures/gguf_rows.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "weights/block_formats.h"

namespace ibid {

GgufPart::GgufPart(TensorSource source, std::vector<size_t> heads, float factor)
    : source_(std::move(source)), heads_(std::move(heads)), factor_(factor) {}

GgufPart GgufPart::repeated(TensorSource source, size_t n) {
  source.n_rows = n;
  GgufPart part(std::move(source), {});
  part.is_repeated_ = true;
  return part;
}

bool GgufPart::becomes_floats() const {
  const HeadTiles& columns = source_.tiles.columns;
  return factor_ != 1 || (columns.used() && columns.width % dtype_block(source_.tensor.dtype).values != 0);
}

size_t GgufPart::source_row(size_t row) const {
  if (is_repeated_) row = 0;
  if (!heads_.empty()) row = row / heads_.size() * heads_.size() + heads_[row % heads_.size()];
  return source_.source_row(row);
}

size_t GgufPart::row_bytes() const {
  const BlockSize block = dtype_block(source_.tensor.dtype);
  return source_.n_cols / block.values * block.bytes;
}

// Returns the size in bytes of one head's columns within a row, for matrices whose columns are ordered by head.
size_t GgufPart::head_bytes() const {
  return row_bytes() / (source_.tiles.columns.n_groups * source_.tiles.columns.of_group);
}

// Reads rows; their columns stay in the checkpoint's order.
void GgufPart::read_stored(std::span<const uint64_t> rows, std::byte* out) const {
  const TensorView& tensor = source_.tensor;
  const BlockSize block = dtype_block(tensor.dtype);
  const size_t bytes = row_bytes();
  std::vector<uint64_t> from;
  for (const uint64_t row : rows) from.push_back(source_row(row));
  if (tensor.source != nullptr) {
    for (uint64_t& row : from) row += tensor.first_row;
    return tensor.source->read_rows(from, out);
  }
  if (!source_.transposed) {
    for (size_t i = 0; i < from.size(); ++i) std::memcpy(out + i * bytes, &tensor.data[from[i] * bytes], bytes);
    return;
  }
  // A transposed row is a column of the checkpoint. Copy by checkpoint row, in which wanted values are adjacent.
  const size_t stride = tensor.row_bytes();
  for (size_t c = 0; c < source_.n_cols; ++c) {
    for (size_t i = 0; i < from.size(); ++i) {
      std::memcpy(out + i * bytes + c * block.bytes, &tensor.data[c * stride + from[i] * block.bytes], block.bytes);
    }
  }
}

void GgufPart::read_rows(std::span<const uint64_t> rows, std::byte* out) const {
  if (!source_.tiles.columns.used()) return read_stored(rows, out);
  std::vector<std::byte> stored(rows.size() * row_bytes());
  read_stored(rows, stored.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    source_.tiles.columns.take_heads(&stored[i * row_bytes()], head_bytes(), out + i * row_bytes());
  }
}

void GgufPart::read_floats(std::span<const uint64_t> rows, float* out) const {
  const HeadTiles& columns = source_.tiles.columns;
  std::vector<std::byte> stored(rows.size() * row_bytes());
  std::vector<float> floats(source_.n_cols);
  read_stored(rows, stored.data());
  for (size_t i = 0; i < rows.size(); ++i, out += floats.size()) {
    dequantize_row(source_.tensor.dtype, std::span(stored).subspan(i * row_bytes(), row_bytes()), floats);
    for (float& value : floats) value *= factor_;
    if (!columns.used()) {
      std::ranges::copy(floats, out);
      continue;
    }
    columns.take_heads(std::as_bytes(std::span(floats)).data(), columns.width * sizeof(float),
                       reinterpret_cast<std::byte*>(out));
  }
}

void GgufRows::add(GgufPart part) {
  as_floats_ |= part.becomes_floats();
  ends_.push_back(n_rows() + part.source().n_rows);
  parts_.push_back(std::move(part));
}

void GgufRows::add(GgufPart part, const RowOrder& places) {
  const uint64_t first = n_rows();
  for (size_t i = 0; i < part.source().n_rows; ++i) {
    const size_t place = places.source_row(i);
    if (place >= placed_.size()) placed_.resize(place + 1);
    placed_[place] = first + i;
  }
  add(std::move(part));
}

void GgufRows::read_rows(std::span<const uint64_t> rows, std::byte* out) const {
  std::vector<uint64_t> within;
  const auto at = [&](uint64_t row) { return placed_.empty() ? row : placed_[row]; };
  for (size_t i = 0; i < rows.size();) {
    const auto p = static_cast<size_t>(std::ranges::upper_bound(ends_, at(rows[i])) - ends_.begin());
    const uint64_t begin = p == 0 ? 0 : ends_[p - 1];
    within.clear();
    for (; i < rows.size() && at(rows[i]) >= begin && at(rows[i]) < ends_[p]; ++i) {
      within.push_back(at(rows[i]) - begin);
    }
    const TensorSource& source = parts_[p].source();
    if (as_floats_) {
      parts_[p].read_floats(within, reinterpret_cast<float*>(out));
      out += within.size() * source.n_cols * sizeof(float);
      continue;
    }
    parts_[p].read_rows(within, out);
    const BlockSize block = dtype_block(source.tensor.dtype);
    out += within.size() * (source.n_cols / block.values * block.bytes);
  }
}

std::vector<std::span<const std::byte>> GgufRows::parts() const {
  std::vector<std::span<const std::byte>> all;
  for (const GgufPart& part : parts_) {
    const TensorView& tensor = part.source().tensor;
    if (tensor.source == nullptr) {
      all.push_back(tensor.data);
    } else {
      std::ranges::copy(tensor.source->parts(), std::back_inserter(all));
    }
  }
  return all;
}

}  // namespace ibid
