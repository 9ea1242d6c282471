// KvLayout: the byte maths of a page. A page holds 64 positions of *all* layers, so that it is the one unit
// of sharing, eviction, snapshot and transfer:
//
//   page:   layer 0 | layer 1 | ... | layer n_layers()-1
//   layer:  head 0 | head 1 | ... | head n_kv_heads-1         each a KvHeadBlock (kernels/kernels.h)
//
// Layers may have heads of different number and size. A layer here is one that keeps rows: where a layer of a model
// reads the rows of an earlier one, there is one layer for both, and the model knows which (LayerConfig::kv_layer).
//
// docs/kv_cache.md draws it. Plain data, immutable once made.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace ibid {

// One position of a layer keeps n_kv_heads keys and as many values, of head_dim numbers each.
struct KvRowShape {
  size_t n_kv_heads = 0;
  size_t head_dim = 0;
  bool operator==(const KvRowShape&) const = default;
};

// One layer within a page.
struct KvLayer {
  KvRowShape row;
  KvHeadBlock block;   // of each head
  size_t offset = 0;   // of its first head, from the start of the page
  size_t kv_dim() const { return row.n_kv_heads * row.head_dim; }
  size_t bytes() const { return row.n_kv_heads * block.bytes; }
  size_t head_offset(size_t head) const { return offset + head * block.bytes; }
};

class KvLayout {
 public:
  // REQUIRES: at least one layer, and none without heads.
  static KvLayout make(std::span<const KvRowShape> rows, KvDType dtype);
  // Layers that are all alike.
  static KvLayout make(size_t n_layers, size_t n_kv_heads, size_t head_dim, KvDType dtype);

  KvDType dtype() const { return layers_.front().block.dtype; }
  size_t n_layers() const { return layers_.size(); }
  const KvLayer& layer(size_t i) const { return layers_[i]; }
  std::span<const KvLayer> layers() const { return layers_; }
  bool layers_are_alike() const;
  size_t page_bytes() const { return layers_.back().offset + layers_.back().bytes(); }

  // Pages that hold `positions` positions; no overflow for any argument.
  static size_t pages_for(size_t positions) {
    return positions / kPagePositions + (positions % kPagePositions != 0 ? 1 : 0);
  }

  // Copies the first n_rows positions of a page, all layers and heads, and touches nothing else of `to`.
  // Returns the bytes copied. REQUIRES: n_rows <= kPagePositions; the pages do not overlap.
  size_t copy_rows(const std::byte* from, std::byte* to, size_t n_rows) const;

 private:
  std::vector<KvLayer> layers_;
};

}  // namespace ibid
