// KvLayout: the byte maths of a page. A page holds 64 positions of *all* layers, so that it is the one unit
// of sharing, eviction, snapshot and transfer:
//
//   page:   layer 0 | layer 1 | ... | layer n_layers-1
//   layer:  head 0 | head 1 | ... | head n_kv_heads-1         each a KvHeadBlock (kernels/kernels.h)
//
// docs/kv_cache.md draws it. Plain data, immutable once made.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace ibid {

struct KvLayout {
  size_t n_layers = 0;
  size_t n_kv_heads = 0;
  size_t head_dim = 0;
  KvHeadBlock block;

  static KvLayout make(size_t n_layers, size_t n_kv_heads, size_t head_dim, KvDType dtype) {
    return {n_layers, n_kv_heads, head_dim, KvHeadBlock::make(dtype, head_dim)};
  }

  KvDType dtype() const { return block.dtype; }
  size_t kv_dim() const { return n_kv_heads * head_dim; }
  size_t layer_bytes() const { return n_kv_heads * block.bytes; }
  size_t layer_offset(size_t layer) const { return layer * layer_bytes(); }
  size_t head_offset(size_t layer, size_t head) const { return layer_offset(layer) + head * block.bytes; }
  size_t page_bytes() const { return n_layers * layer_bytes(); }

  // Pages that hold `positions` positions; no overflow for any argument.
  static size_t pages_for(size_t positions) {
    return positions / kPagePositions + (positions % kPagePositions != 0 ? 1 : 0);
  }

  // Copies the first n_rows positions of a page, all layers and heads, and touches nothing else of `to`.
  // Returns the bytes copied. REQUIRES: n_rows <= kPagePositions; the pages do not overlap.
  size_t copy_rows(const std::byte* from, std::byte* to, size_t n_rows) const;
};

}  // namespace ibid
