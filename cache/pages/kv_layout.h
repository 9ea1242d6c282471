// KvLayout: sizes and offsets of the data that a sequence caches for a model's layers. Attention layers keep a key and
// a value for each position and head. A page holds 64 positions of *all* these layers, so that the page is the unit of
// sharing, eviction and transfer:
//   page:   layer 0 | layer 1 | ... | layer n_layers()-1
//   layer:  head 0 | head 1 | ... | head n_kv_heads-1         each a KvHeadBlock (kernels/kernels.h)
// A page has two parts: the first part with the layers of full attention, and the window part with the sliding-window
// layers. A sequence needs the window parts of its last pages only, so the pool can evict the others (KvPagePool). In a
// file the window part follows the first part.
//
// Layers may differ in the number and size of heads. If a layer of a model reads the keys and values of an earlier one,
// both are one layer here (LayerConfig::kv_layer).
//
// Recurrent layers keep a state, which depends on all positions before it (cache/pages/sequence_state.h). The states of
// all recurrent layers after one position are one block of memory:
//   state:  layer 0 | layer 1 | ... | layer n_states()-1      floats, each layer aligned to a cache line
// docs/kv_cache.md has a drawing. Plain data, immutable once made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace ibid {

// Keys and values of a layer at one position: n_kv_heads of each, with head_dim numbers. Layers with latent attention
// store only the key (a latent row, see KvHeadBlock), whose first latent_dim numbers are the value.
struct KvRowShape {
  size_t n_kv_heads = 0;
  size_t head_dim = 0;
  size_t window = 0;  // number of positions that attention reads, including the current one; 0: all
  size_t latent_dim = 0;
  std::optional<KvRowFormat> format;  // the layer's format; nullopt: that of the KV type (model/weights/kv_precision.h)
  bool operator==(const KvRowShape&) const = default;
};

// Sizes of one recurrent layer.
struct StateShape {
  size_t floats = 0;  // size of the layer's state
  // Size of a row, which is what one position adds: the next state is computed from the state before it and the row.
  size_t row_floats = 0;
  bool operator==(const StateShape&) const = default;
};

enum class PagePart : uint8_t { kAll, kWindow };
inline constexpr size_t kPageParts = 2;

// One layer within a page.
struct KvLayer {
  KvRowShape row;
  KvHeadBlock block;  // layout of each head
  PagePart part = PagePart::kAll;
  size_t offset = 0;         // offset of the layer's first head from the start of the page part
  size_t record_offset = 0;  // offset of the layer's first head from the start of the page as stored in a file
  size_t kv_dim() const { return row.n_kv_heads * row.head_dim; }
  size_t bytes() const { return row.n_kv_heads * block.bytes; }
};

// Addresses of the two parts of a page. `window` is null if the page has no window part (sliding-window layers).
struct PageMemory {
  PageMemory(std::byte* of_all, std::byte* of_window = nullptr) : all(of_all), window(of_window) {}

  std::byte* all;
  std::byte* window;

  std::byte* layer(const KvLayer& of) const { return (of.part == PagePart::kAll ? all : window) + of.offset; }
  std::byte* head(const KvLayer& of, size_t head) const { return layer(of) + head * of.block.bytes; }
};

class KvLayout {
 public:
  // Returns the layout of a model. `rows` has one shape per layer with keys and values, `states` one per recurrent
  // layer. REQUIRES: at least one shape, none of them empty.
  static KvLayout make(std::span<const KvRowShape> rows, KvDType dtype, std::span<const StateShape> states = {});
  // Returns the layout of n_layers equal layers with full attention.
  static KvLayout make(size_t n_layers, size_t n_kv_heads, size_t head_dim, KvDType dtype);

  KvDType dtype() const { return dtype_; }
  size_t n_layers() const { return layers_.size(); }
  const KvLayer& layer(size_t i) const { return layers_[i]; }
  std::span<const KvLayer> layers() const { return layers_; }
  bool layers_are_alike() const;
  // True if a layer stores its keys or values in another format than that of dtype().
  bool has_mixed_formats() const;
  // Bytes of both parts. The first part has at least a cache line, even if the model has no layer with full attention,
  // so that every group of 64 positions has a page.
  size_t page_bytes() const { return part_bytes_[0] + part_bytes_[1]; }
  size_t part_bytes(PagePart part) const { return part_bytes_[static_cast<size_t>(part)]; }
  // Widest window in positions; 0 if there is no window part.
  size_t window() const { return window_; }
  // Index of the first page whose window part (sliding-window layers) attention reads when position n is computed.
  size_t first_window_page(size_t n) const {
    // Round down to a whole attention block, because attention reads whole blocks.
    return n <= window_ ? 0 : (n - window_) / kAttentionBlock * (kAttentionBlock / kPagePositions);
  }
  // Minimum bytes of a sequence of `positions` positions, without states. Does not overflow.
  size_t bytes_for(size_t positions) const;
  // Maximum number of states that a sequence uses during a pass: before the pass, after it, and after rejected drafts.
  static constexpr size_t kStatesAtWork = 3;
  // Maximum bytes that a sequence of `positions` positions uses while it is computed: all window parts and
  // kStatesAtWork states.
  size_t work_bytes(size_t positions) const {
    return pages_for(positions) * page_bytes() + kStatesAtWork * state_bytes();
  }
  // As work_bytes(), with the bytes of three further states, which are kept for later prompts.
  size_t room_for(size_t positions) const { return work_bytes(positions) + 3 * state_bytes(); }

  size_t n_states() const { return states_.size(); }
  const StateShape& state(size_t i) const { return states_[i]; }
  // Offsets of recurrent layer i, in floats: state_offset() in the block of all states, row_offset() in a row of all
  // layers.
  size_t state_offset(size_t i) const { return state_offsets_[i]; }
  size_t row_offset(size_t i) const { return row_offsets_[i]; }
  size_t state_bytes() const { return state_floats_ * sizeof(float); }  // bytes of all states; 0: no recurrent layer
  // Floats of a row of all recurrent layers together: what one position adds to all states.
  size_t state_row_floats() const { return row_floats_; }

  // Number of pages for `positions` positions. Does not overflow.
  static size_t pages_for(size_t positions) {
    return positions / kPagePositions + (positions % kPagePositions != 0 ? 1 : 0);
  }

  // Copies the first n_rows positions of all layers, in the parts that both pages have; writes nothing else to `to`.
  // Returns the bytes copied. REQUIRES: n_rows <= kPagePositions; the pages do not overlap.
  size_t copy_rows(const PageMemory& from, const PageMemory& to, size_t n_rows) const;
  // Addresses of the parts of a page whose bytes are laid out as in a file.
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

// Returns true if all keys and values in the parts that the page has are finite; positions that were never written are
// zero. Computed values are finite, but a file may contain anything, and one NaN or infinity would make all later
// positions NaN. Runs at memory speed.
bool rows_are_finite(const KvLayout& layout, const PageMemory& page);

}  // namespace ibid
