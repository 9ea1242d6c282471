// KvLayout: what a sequence keeps of a model's layers, and the byte maths of it. Layers with attention keep rows, a
// key and a value for each position and head. A page holds 64 positions of *all* these layers, so that it is the one
// unit of sharing, eviction and transfer:
//
//   page:   layer 0 | layer 1 | ... | layer n_layers()-1
//   layer:  head 0 | head 1 | ... | head n_kv_heads-1         each a KvHeadBlock (kernels/kernels.h)
//
// Layers may have heads of different number and size. A layer here is one that keeps rows: where a layer of a model
// reads the rows of an earlier one, there is one layer for both, and the model knows which (LayerConfig::kv_layer).
//
// Recurrent layers keep a state, which stands for all positions up to one of them (cache/pages/sequence_state.h). The
// states of all recurrent layers behind one position are one piece of memory:
//
//   state:  layer 0 | layer 1 | ... | layer n_states()-1      floats, each layer at a cache line
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

// One recurrent layer.
struct StateShape {
  size_t floats = 0;      // of its state
  size_t row_floats = 0;  // what one position gives it: enough to compute the next state from the one before
  bool operator==(const StateShape&) const = default;
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
  // REQUIRES: at least one layer or state, and none that is empty.
  static KvLayout make(std::span<const KvRowShape> rows, KvDType dtype, std::span<const StateShape> states = {});
  // Layers that are all alike.
  static KvLayout make(size_t n_layers, size_t n_kv_heads, size_t head_dim, KvDType dtype);

  KvDType dtype() const { return dtype_; }
  size_t n_layers() const { return layers_.size(); }
  const KvLayer& layer(size_t i) const { return layers_[i]; }
  std::span<const KvLayer> layers() const { return layers_; }
  bool layers_are_alike() const;
  // A page of a model whose layers keep no rows has a cache line, and stands for its 64 positions all the same.
  size_t page_bytes() const { return layers_.empty() ? 64 : layers_.back().offset + layers_.back().bytes(); }

  size_t n_states() const { return states_.size(); }
  const StateShape& state(size_t i) const { return states_[i]; }
  // In floats: where a layer's state begins, and where what a row gives it begins, in a row of all layers.
  size_t state_offset(size_t i) const { return state_offsets_[i]; }
  size_t row_offset(size_t i) const { return row_offsets_[i]; }
  size_t state_bytes() const { return state_floats_ * sizeof(float); }  // of all layers; 0: none is recurrent
  size_t state_row_floats() const { return row_floats_; }               // what one position gives to all of them

  // Pages that hold `positions` positions; no overflow for any argument.
  static size_t pages_for(size_t positions) {
    return positions / kPagePositions + (positions % kPagePositions != 0 ? 1 : 0);
  }

  // Copies the first n_rows positions of a page, all layers and heads, and touches nothing else of `to`.
  // Returns the bytes copied. REQUIRES: n_rows <= kPagePositions; the pages do not overlap.
  size_t copy_rows(const std::byte* from, std::byte* to, size_t n_rows) const;

 private:
  KvDType dtype_ = KvDType::kF32;
  std::vector<KvLayer> layers_;
  std::vector<StateShape> states_;
  std::vector<size_t> state_offsets_, row_offsets_;
  size_t state_floats_ = 0, row_floats_ = 0;
};

}  // namespace ibid
