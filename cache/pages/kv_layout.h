// KvLayout: what a sequence keeps of a model's layers, and the byte maths of it. Layers with attention keep rows, a
// key and a value for each position and head. A page holds 64 positions of *all* these layers, so that it is the one
// unit of sharing, eviction and transfer:
//
//   page:   layer 0 | layer 1 | ... | layer n_layers()-1
//   layer:  head 0 | head 1 | ... | head n_kv_heads-1         each a KvHeadBlock (kernels/kernels.h)
//
// A layer with a window reads its last positions only. So a page has two parts: the layers that read everything, and
// those with a window. A sequence needs the second of its last positions alone, and the pool may take it away further
// back (KvPagePool). In a file the parts lie one behind the other.
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

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace ibid {

// One position of a layer keeps n_kv_heads keys and as many values, of head_dim numbers each. Of latent rows
// (KvHeadBlock) a key is all that is kept, and the first latent_dim numbers of it are the value.
struct KvRowShape {
  size_t n_kv_heads = 0;
  size_t head_dim = 0;
  size_t window = 0;  // positions that are read, the own one among them; 0: all
  size_t latent_dim = 0;
  std::optional<KvRowFormat> format;  // other than the KV type's (model/weights/kv_precision.h)
  bool operator==(const KvRowShape&) const = default;
};

// One recurrent layer.
struct StateShape {
  size_t floats = 0;      // of its state
  size_t row_floats = 0;  // what one position gives it: enough to compute the next state from the one before
  bool operator==(const StateShape&) const = default;
};

enum class PagePart : uint8_t { kAll, kWindow };
inline constexpr size_t kPageParts = 2;

// One layer within a page.
struct KvLayer {
  KvRowShape row;
  KvHeadBlock block;   // of each head
  PagePart part = PagePart::kAll;
  size_t offset = 0;         // of its first head, from the start of the part
  size_t record_offset = 0;  // likewise, from the start of the page in a file
  size_t kv_dim() const { return row.n_kv_heads * row.head_dim; }
  size_t bytes() const { return row.n_kv_heads * block.bytes; }
};

// Where the parts of a page are. Of layers with a window there may be none.
struct PageMemory {
  PageMemory(std::byte* of_all, std::byte* of_window = nullptr) : all(of_all), window(of_window) {}

  std::byte* all;
  std::byte* window;

  std::byte* layer(const KvLayer& of) const { return (of.part == PagePart::kAll ? all : window) + of.offset; }
  std::byte* head(const KvLayer& of, size_t head) const { return layer(of) + head * of.block.bytes; }
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
  // True if some layer has another format than dtype().
  bool has_exceptions() const;
  // Both parts. A model whose layers all have windows, or keep no rows, has a cache line as the first: a page stands
  // for its 64 positions all the same.
  size_t page_bytes() const { return part_bytes_[0] + part_bytes_[1]; }
  size_t part_bytes(PagePart part) const { return part_bytes_[static_cast<size_t>(part)]; }
  // The widest window of the second part, in positions; 0: there is no second part.
  size_t window() const { return window_; }
  // The first page that the layers with a window read from when position n is computed.
  size_t first_window_page(size_t n) const {
    // Attention takes a block of pages at a time.
    return n <= window_ ? 0 : (n - window_) / kAttentionBlock * (kAttentionBlock / kPagePositions);
  }
  // What one sequence of so many positions takes at least, without its states; no overflow for any argument.
  size_t bytes_for(size_t positions) const;
  // The states that a sequence computes on: the one that a pass begins with, the one that it ends with, and the one
  // behind drafts that were refused.
  static constexpr size_t kStatesAtWork = 3;
  // The most that a sequence of so many positions computes on: all of its windows, and these states.
  size_t work_bytes(size_t positions) const {
    return pages_for(positions) * page_bytes() + kStatesAtWork * state_bytes();
  }
  // The same with some states that are kept for later.
  size_t room_for(size_t positions) const { return work_bytes(positions) + 3 * state_bytes(); }

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

  // Copies the first n_rows positions of a page, all layers and heads of the parts that both have, and touches nothing
  // else of `to`. Returns the bytes copied. REQUIRES: n_rows <= kPagePositions; the pages do not overlap.
  size_t copy_rows(const PageMemory& from, const PageMemory& to, size_t n_rows) const;
  // The page that `bytes`, as they are in a file, are.
  PageMemory parts_of(std::byte* bytes) const {
    return {bytes, window_ == 0 ? nullptr : bytes + part_bytes(PagePart::kAll)};
  }

 private:
  KvDType dtype_ = KvDType::kF32;
  std::array<size_t, kPageParts> part_bytes_{};
  size_t window_ = 0;
  std::vector<KvLayer> layers_;
  std::vector<StateShape> states_;
  std::vector<size_t> state_offsets_, row_offsets_;
  size_t state_floats_ = 0, row_floats_ = 0;
};

// Checks whether keys and values are finite numbers. Rows that this program computes are. A file may bring
// anything, and one row that is NaN or infinite makes every position behind it NaN.
// A pure function.

// Checks the parts that a page has, rows that were never written (zero) included. As fast as memory can be read.
bool rows_are_finite(const KvLayout& layout, const PageMemory& page);

}  // namespace ibid
