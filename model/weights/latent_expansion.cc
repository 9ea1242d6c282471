#include "model/weights/latent_expansion.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "weights/block_formats.h"

namespace ibid {
namespace {

// Rows [H row_value_dim, nope_dim]: row r of a head is column r of its rows of keys; behind kv_rank come zeros.
class TurnedKeys : public RowSource {
 public:
  TurnedKeys(const TensorView& whole, const LatentAttention& shape, DType dtype)
      : whole_(whole), dtype_(dtype), rank_(shape.kv_rank), width_(shape.row_value_dim()), nope_(shape.nope_dim),
        of_head_(shape.nope_dim + shape.value_dim) {}

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override {
    for (size_t i = 0; i < rows.size();) {
      const uint64_t head = rows[i] / width_;
      size_t n = 1;
      while (i + n < rows.size() && rows[i + n] / width_ == head) ++n;
      read_columns(head, rows.subspan(i, n), out + i * nope_ * number_bytes());
      i += n;
    }
  }

  std::vector<std::span<const std::byte>> parts() const override {
    return whole_.source == nullptr ? std::vector{whole_.data} : whole_.source->parts();
  }

 private:
  size_t number_bytes() const { return dtype_block(dtype_).bytes; }

  // Columns `rows` of a head.
  void read_columns(uint64_t head, std::span<const uint64_t> rows, std::byte* out) const {
    const BlockSize block = dtype_block(whole_.dtype);
    uint64_t first = width_, end = 0;   // the blocks that have them
    for (const uint64_t row : rows) {
      first = std::min(first, row % width_ / block.values * block.values);
      end = std::max(end, (row % width_ / block.values + 1) * block.values);
    }
    end = std::min<uint64_t>(end, rank_);
    std::vector<float> decoded(dtype_ == whole_.dtype || first >= end ? 0 : end - first);
    std::vector<std::byte> made(whole_.source == nullptr ? 0 : whole_.row_bytes());
    for (uint64_t k = 0; k < nope_; ++k) {
      const std::byte* from = row_of(head * of_head_ + k, made) + first / block.values * block.bytes;
      if (!decoded.empty()) {
        dequantize_row(whole_.dtype, {from, (end - first) / block.values * block.bytes}, decoded);
        from = reinterpret_cast<const std::byte*>(decoded.data());
      }
      for (size_t r = 0; r < rows.size(); ++r) {
        std::byte* to = out + (r * nope_ + k) * number_bytes();
        const uint64_t column = rows[r] % width_;
        if (column < rank_) {
          std::memcpy(to, from + (column - first) * number_bytes(), number_bytes());
        } else {
          std::memset(to, 0, number_bytes());
        }
      }
    }
  }

  // made: its place, of a row that no file holds as it is.
  const std::byte* row_of(uint64_t row, std::span<std::byte> made) const {
    if (whole_.source == nullptr) return whole_.data.data() + row * whole_.row_bytes();
    const uint64_t index = whole_.first_row + row;
    whole_.source->read_rows({&index, 1}, made.data());
    return made.data();
  }

  TensorView whole_;
  DType dtype_;
  uint64_t rank_, width_, nope_, of_head_;
};

}  // namespace

LatentExpansionSources split_latent_expansion(const ModelConfig& config, const TensorSource& whole) {
  const LatentAttention& shape = config.latent;
  LatentExpansionSources parts;
  parts.values = whole;
  parts.values.n_rows = config.n_heads * shape.value_dim;
  parts.values.order = {.first = shape.nope_dim, .block = shape.value_dim, .stride = shape.nope_dim + shape.value_dim};
  const DType stored = whole.tensor.dtype;
  const DType dtype = dtype_is_float(stored) && dtype_block(stored).values == 1 ? stored : DType::kF32;
  parts.turned = std::make_unique<TurnedKeys>(whole.tensor, shape, dtype);
  parts.keys.name = whole.name;
  parts.keys.n_rows = config.n_heads * shape.row_value_dim();
  parts.keys.n_cols = shape.nope_dim;
  parts.keys.tensor.dtype = dtype;
  parts.keys.tensor.shape = Shape{{parts.keys.n_rows, parts.keys.n_cols}, 2};
  parts.keys.tensor.source = parts.turned.get();
  return parts;
}

}  // namespace ibid
