#include "cache/kv_layout.h"

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

size_t value_row_bytes(const KvHeadBlock& block) {
  switch (block.dtype) {
    case KvDType::kF32: return block.v_dim * 4;
    case KvDType::kF16: return block.v_dim * 2;
    case KvDType::kInt8: return block.v_dim;
  }
  return 0;
}

size_t copy_bytes(const std::byte* from, std::byte* to, size_t offset, size_t bytes) {
  std::memcpy(to + offset, from + offset, bytes);
  return bytes;
}

size_t copy_head_rows(const KvHeadBlock& block, const std::byte* from, std::byte* to, size_t n_rows) {
  const size_t cell = key_cell_bytes(block.dtype);
  const size_t cells = key_cells(block);
  const size_t group_bytes = cells * kKeyGroup * cell;
  const size_t whole_groups = n_rows / kKeyGroup;
  const size_t rest = n_rows % kKeyGroup;

  size_t copied = copy_bytes(from, to, block.k, whole_groups * group_bytes);
  if (rest > 0) {
    const size_t group = block.k + whole_groups * group_bytes;
    for (size_t c = 0; c < cells; ++c) {
      copied += copy_bytes(from, to, group + c * kKeyGroup * cell, rest * cell);
    }
  }
  copied += copy_bytes(from, to, block.v, n_rows * value_row_bytes(block));
  if (block.dtype == KvDType::kInt8) {
    copied += copy_bytes(from, to, block.k_scale, n_rows * sizeof(float));
    copied += copy_bytes(from, to, block.v_scale, n_rows * sizeof(float));
  }
  return copied;
}

}  // namespace

size_t KvLayout::copy_rows(const std::byte* from, std::byte* to, size_t n_rows) const {
  CHECK_LE(n_rows, kPagePositions);
  if (n_rows == kPagePositions) return copy_bytes(from, to, 0, page_bytes());
  size_t copied = 0;
  for (size_t layer = 0; layer < n_layers; ++layer) {
    for (size_t head = 0; head < n_kv_heads; ++head) {
      const size_t offset = head_offset(layer, head);
      copied += copy_head_rows(block, from + offset, to + offset, n_rows);
    }
  }
  return copied;
}

}  // namespace ibid
