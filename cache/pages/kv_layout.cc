#include "cache/pages/kv_layout.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/attention/kv_part_order.h"

namespace ibid {

namespace {

constexpr size_t kLineFloats = 16;  // of a cache line

size_t whole_lines(size_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

}  // namespace

KvLayout KvLayout::make(std::span<const KvRowShape> rows, KvDType dtype, std::span<const StateShape> states) {
  CHECK(!rows.empty() || !states.empty()) << "a layout without layers";
  KvLayout layout;
  layout.dtype_ = dtype;
  size_t offset = 0;
  for (const KvRowShape& row : rows) {
    CHECK(row.n_kv_heads > 0 && row.head_dim > 0) << "a layer that keeps nothing";
    layout.layers_.push_back({row, KvHeadBlock::make(dtype, row.head_dim), offset});
    offset += layout.layers_.back().bytes();
  }
  for (const StateShape& state : states) {
    CHECK(state.floats > 0 && state.row_floats > 0) << "a recurrent layer that keeps nothing";
    layout.states_.push_back(state);
    layout.state_offsets_.push_back(layout.state_floats_);
    layout.row_offsets_.push_back(layout.row_floats_);
    layout.state_floats_ += whole_lines(state.floats);
    layout.row_floats_ += whole_lines(state.row_floats);
  }
  return layout;
}

KvLayout KvLayout::make(size_t n_layers, size_t n_kv_heads, size_t head_dim, KvDType dtype) {
  return make(std::vector(n_layers, KvRowShape{n_kv_heads, head_dim}), dtype);
}

bool KvLayout::layers_are_alike() const {
  return std::all_of(layers_.begin(), layers_.end(),
                     [&](const KvLayer& layer) { return layer.row == layers_.front().row; });
}

size_t KvLayout::copy_rows(const std::byte* from, std::byte* to, size_t n_rows) const {
  CHECK_LE(n_rows, kPagePositions);
  if (n_rows == kPagePositions) {
    std::memcpy(to, from, page_bytes());
    return page_bytes();
  }
  size_t copied = 0;
  for (const KvLayer& layer : layers_) {
    for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
      const size_t offset = layer.head_offset(head);
      copied += copy_head_rows(layer.block, from + offset, to + offset, n_rows);
    }
  }
  return copied;
}

}  // namespace ibid
