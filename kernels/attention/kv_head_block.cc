#include <cstring>

#include "base/check.h"
#include "kernels/attention/kv_part_order.h"
#include "kernels/kernels.h"

namespace ibid {

namespace {

size_t copy_bytes(const std::byte* from, std::byte* to, size_t offset, size_t bytes) {
  std::memcpy(to + offset, from + offset, bytes);
  return bytes;
}

// Whole groups in one piece, and of the last one a piece of each cell.
size_t copy_part(const KvPartOrder& order, const std::byte* from, std::byte* to, size_t n_rows) {
  const size_t n_groups = n_rows / order.group(), n_rest = n_rows % order.group();
  size_t copied = copy_bytes(from, to, order.offset, n_groups * order.group_bytes());
  for (size_t cell = 0; n_rest > 0 && cell < order.n_cells; ++cell) {
    copied += copy_bytes(from, to, order.at(n_rows - n_rest, cell * order.cell_dims()), n_rest * order.cell_bytes());
  }
  return copied;
}

}  // namespace

KvHeadBlock KvHeadBlock::make(KvDType dtype, size_t head_dim) {
  CHECK(head_dim > 0);
  KvHeadBlock block;
  block.dtype = dtype;
  block.head_dim = head_dim;
  block.k_dim = (head_dim + 3) / 4 * 4;
  block.v_dim = (head_dim + 15) / 16 * 16;
  const size_t scales = dtype == KvDType::kInt8 ? kPagePositions * sizeof(float) : 0;
  block.k = 0;
  block.k_scale = block.k + key_order(block).bytes();
  block.v = block.k_scale + scales;
  block.v_scale = block.v + value_order(block).bytes();
  block.bytes = block.v_scale + scales;
  return block;
}

size_t copy_head_rows(const KvHeadBlock& block, const std::byte* from, std::byte* to, size_t n_rows) {
  CHECK_LE(n_rows, kPagePositions);
  size_t copied = copy_part(key_order(block), from, to, n_rows) + copy_part(value_order(block), from, to, n_rows);
  if (block.dtype == KvDType::kInt8) {
    copied += copy_bytes(from, to, block.k_scale, n_rows * sizeof(float));
    copied += copy_bytes(from, to, block.v_scale, n_rows * sizeof(float));
  }
  return copied;
}

}  // namespace ibid
