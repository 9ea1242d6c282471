#include "cache/pages/kv_layout.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace ibid {

namespace {

// Bytes that lie side by side for one position of K: one element, or four of INT8.
size_t key_cell_bytes(KvDType dtype) { return dtype == KvDType::kF16 ? 2 : 4; }

// Cells of one position of K: one per element, or per four of INT8.
size_t key_cells(const KvHeadBlock& block) {
  return block.dtype == KvDType::kInt8 ? block.k_dim / 4 : block.head_dim;
}

size_t copy_bytes(const std::byte* from, std::byte* to, size_t offset, size_t bytes) {
  std::memcpy(to + offset, from + offset, bytes);
  return bytes;
}

// The first `n_rows` positions of `cells` cells in groups of `group` positions, which lie side by side in a cell.
size_t copy_grouped(const std::byte* from, std::byte* to, size_t offset, size_t n_rows, size_t group, size_t cells,
                    size_t bytes) {
  const size_t group_bytes = cells * group * bytes;
  size_t copied = copy_bytes(from, to, offset, n_rows / group * group_bytes);
  const size_t rest = n_rows % group;
  for (size_t c = 0; rest > 0 && c < cells; ++c) {
    copied += copy_bytes(from, to, offset + n_rows / group * group_bytes + c * group * bytes, rest * bytes);
  }
  return copied;
}

size_t copy_head_rows(const KvHeadBlock& block, const std::byte* from, std::byte* to, size_t n_rows) {
  const bool int8 = block.dtype == KvDType::kInt8;
  size_t copied = copy_grouped(from, to, block.k, n_rows, kKeyGroup, key_cells(block), key_cell_bytes(block.dtype));
  if (int8) {
    copied += copy_grouped(from, to, block.v, n_rows, kValueGroup, block.v_dim, 1);
    copied += copy_bytes(from, to, block.k_scale, n_rows * sizeof(float));
    copied += copy_bytes(from, to, block.v_scale, n_rows * sizeof(float));
  } else {
    copied += copy_bytes(from, to, block.v, n_rows * block.v_dim * key_cell_bytes(block.dtype));
  }
  return copied;
}

}  // namespace

KvLayout KvLayout::make(std::span<const KvRowShape> rows, KvDType dtype) {
  CHECK(!rows.empty()) << "a layout without layers";
  KvLayout layout;
  size_t offset = 0;
  for (const KvRowShape& row : rows) {
    CHECK(row.n_kv_heads > 0 && row.head_dim > 0) << "a layer that keeps nothing";
    layout.layers_.push_back({row, KvHeadBlock::make(dtype, row.head_dim), offset});
    offset += layout.layers_.back().bytes();
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
  if (n_rows == kPagePositions) return copy_bytes(from, to, 0, page_bytes());
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
