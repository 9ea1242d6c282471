#include <cstring>

#include "base/check.h"
#include "kernels/layout/kv_head_block.h"

namespace ibid {

namespace {

size_t copy_bytes(const std::byte* from, std::byte* to, size_t offset, size_t bytes) {
  std::memcpy(to + offset, from + offset, bytes);
  return bytes;
}

// Copies whole groups of interleaved positions with one memcpy, and the last, partial group cell by cell (KvPartOrder).
size_t copy_part(const KvPartOrder& order, const std::byte* from, std::byte* to, size_t n_rows) {
  const size_t n_groups = n_rows / order.group(), n_rest = n_rows % order.group();
  size_t copied = copy_bytes(from, to, order.offset, n_groups * order.group_bytes());
  for (size_t cell = 0; n_rest > 0 && cell < order.n_cells; ++cell) {
    const size_t at = order.element_offset(n_rows - n_rest, cell * order.cell_dims());
    copied += copy_bytes(from, to, at, n_rest * order.cell_bytes());
  }
  return copied;
}

size_t copy_scales(const KvScales& scales, size_t offset, const std::byte* from, std::byte* to, size_t n_rows) {
  size_t copied = 0;
  for (size_t i = 0; i < scales.arrays; ++i) {
    copied += copy_bytes(from, to, offset + i * scales.array_bytes(), n_rows * scales.bytes);
  }
  return copied;
}

}  // namespace

KvHeadBlock KvHeadBlock::make(KvRowFormat format, size_t head_dim, size_t latent_dim) {
  CHECK(head_dim > 0 && head_dim <= kMaxHeadDim);
  CHECK(latent_dim == 0 || (latent_dim < head_dim && latent_dim % kLatentUnit == 0 && head_dim % kLatentUnit == 0));
  KvHeadBlock block;
  block.format = format;
  block.head_dim = head_dim;
  block.latent_dim = latent_dim;
  block.k_dim = block.keys() == KvNumberFormat::kInt4 ? block.nibble_groups() * kNibbleGroup : (head_dim + 3) / 4 * 4;
  block.v_dim = (block.value_dim() + 15) / 16 * 16;
  block.k = 0;
  block.k_scale = block.k + key_order(block).bytes();
  if (block.is_latent()) {
    block.v_scale = block.k_scale;
    block.bytes = block.k_scale + KvScales::of(block, block.keys()).all_bytes();
    return block;
  }
  block.v = block.k_scale + KvScales::of(block, block.keys()).all_bytes();
  block.v_scale = block.v + value_order(block).bytes();
  block.bytes = block.v_scale + KvScales::of(block, block.values()).all_bytes();
  return block;
}

size_t copy_head_rows(const KvHeadBlock& block, const std::byte* from, std::byte* to, size_t n_rows) {
  CHECK_LE(n_rows, kPagePositions);
  const size_t keys = copy_part(key_order(block), from, to, n_rows) +
                      copy_scales(KvScales::of(block, block.keys()), block.k_scale, from, to, n_rows);
  if (block.is_latent()) return keys;
  return keys + copy_part(value_order(block), from, to, n_rows) +
         copy_scales(KvScales::of(block, block.values()), block.v_scale, from, to, n_rows);
}

}  // namespace ibid
