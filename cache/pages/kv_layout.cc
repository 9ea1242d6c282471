#include "cache/pages/kv_layout.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/layout/kv_head_block.h"

namespace ibid {

namespace {

constexpr size_t kLineFloats = 16;  // floats in a cache line

size_t whole_lines(size_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

}  // namespace

KvLayout KvLayout::make(std::span<const KvRowShape> rows, KvDType dtype, std::span<const StateShape> states) {
  CHECK(!rows.empty() || !states.empty()) << "a layout needs a layer";
  KvLayout layout;
  layout.dtype_ = dtype;
  for (const KvRowShape& row : rows) {
    CHECK(row.n_kv_heads > 0 && row.head_dim > 0) << "a layer must keep keys and values";
    const PagePart part = row.window == 0 ? PagePart::kAll : PagePart::kWindow;
    size_t& bytes = layout.part_bytes_[static_cast<size_t>(part)];
    const KvHeadBlock block = KvHeadBlock::make(row.format.value_or(dtype), row.head_dim, row.latent_dim);
    layout.layers_.push_back({row, block, part, bytes});
    bytes += layout.layers_.back().bytes();
    layout.window_ = std::max(layout.window_, row.window);
  }
  size_t& all = layout.part_bytes_[static_cast<size_t>(PagePart::kAll)];
  all = std::max(all, kLineFloats * sizeof(float));
  for (KvLayer& layer : layout.layers_) layer.record_offset = layer.offset + (layer.part == PagePart::kAll ? 0 : all);
  for (const StateShape& state : states) {
    CHECK(state.floats > 0 && state.row_floats > 0) << "a recurrent layer must keep a state";
    layout.states_.push_back(state);
    layout.state_offsets_.push_back(layout.state_floats_);
    layout.row_offsets_.push_back(layout.row_floats_);
    layout.state_floats_ += whole_lines(state.floats);
    layout.row_floats_ += whole_lines(state.row_floats);
  }
  return layout;
}

KvLayout KvLayout::make(size_t n_layers, size_t n_kv_heads, size_t head_dim, KvDType dtype) {
  return make(std::vector(n_layers, KvRowShape{n_kv_heads, head_dim, 0}), dtype);
}

bool KvLayout::layers_are_alike() const {
  return std::all_of(layers_.begin(), layers_.end(),
                     [&](const KvLayer& layer) { return layer.row == layers_.front().row; });
}

bool KvLayout::has_mixed_formats() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const KvLayer& layer) { return layer.row.format.has_value(); });
}

size_t KvLayout::bytes_for(size_t positions) const {
  const size_t n_pages = pages_for(positions);
  const size_t n_windows = std::min(n_pages, pages_for(window_) + 2 * kAttentionBlock / kPagePositions);
  const auto all = checked_mul(n_pages, part_bytes(PagePart::kAll));
  const auto windows = checked_mul(n_windows, part_bytes(PagePart::kWindow));
  return all && windows ? checked_add(*all, *windows).value_or(SIZE_MAX) : SIZE_MAX;
}

size_t KvLayout::copy_rows(const PageMemory& from, const PageMemory& to, size_t n_rows) const {
  CHECK_LE(n_rows, kPagePositions);
  const bool windows = from.window != nullptr && to.window != nullptr;
  size_t copied = 0;
  if (n_rows == kPagePositions) {
    std::memcpy(to.all, from.all, part_bytes(PagePart::kAll));
    copied += part_bytes(PagePart::kAll);
    if (windows) {
      std::memcpy(to.window, from.window, part_bytes(PagePart::kWindow));
      copied += part_bytes(PagePart::kWindow);
    }
    return copied;
  }
  for (const KvLayer& layer : layers_) {
    if (layer.part == PagePart::kWindow && !windows) continue;
    for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
      copied += copy_head_rows(layer.block, from.head(layer, head), to.head(layer, head), n_rows);
    }
  }
  return copied;
}

namespace {

// True if no word has all exponent bits set, as NaN and infinity have. The loop has no branches, so that compilers
// vectorise it.
template <typename Word>
bool are_finite(const std::byte* bytes, size_t n_bytes, Word exponent) {
  Word bad = 0;
  for (size_t i = 0; i < n_bytes; i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes + i, sizeof(word));
    bad = static_cast<Word>(bad | ((word & exponent) == exponent ? 1 : 0));
  }
  return bad == 0;
}

bool floats_are_finite(const std::byte* bytes, size_t n_bytes) {
  return are_finite<uint32_t>(bytes, n_bytes, 0x7f800000);
}
bool halves_are_finite(const std::byte* bytes, size_t n_bytes) { return are_finite<uint16_t>(bytes, n_bytes, 0x7c00); }

// True if all numbers of a part (the keys or the values of a head) are finite. The part begins at `numbers`, its scales
// at `scales`. In quantised parts only the scales can be non-finite.
bool part_is_finite(KvNumberFormat part, const KvPartOrder& order, const std::byte* numbers, const std::byte* scales,
                    size_t scale_bytes) {
  switch (part) {
    case KvNumberFormat::kF32: return floats_are_finite(numbers, order.bytes());
    case KvNumberFormat::kF16: return halves_are_finite(numbers, order.bytes());
    case KvNumberFormat::kInt8: return floats_are_finite(scales, scale_bytes);
    case KvNumberFormat::kInt4: break;
  }
  return halves_are_finite(scales, scale_bytes);
}

bool head_is_finite(const KvHeadBlock& block, const std::byte* head) {
  const auto scale_bytes = [&](KvNumberFormat part) { return KvScales::of(block, part).all_bytes(); };
  if (!part_is_finite(block.keys(), key_order(block), head + block.k, head + block.k_scale,
                      scale_bytes(block.keys()))) {
    return false;
  }
  return block.is_latent() || part_is_finite(block.values(), value_order(block), head + block.v, head + block.v_scale,
                                             scale_bytes(block.values()));
}

}  // namespace

bool rows_are_finite(const KvLayout& layout, const PageMemory& page) {
  for (const KvLayer& layer : layout.layers()) {
    if (layer.part == PagePart::kWindow && page.window == nullptr) continue;
    for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
      if (!head_is_finite(layer.block, page.head(layer, head))) return false;
    }
  }
  return true;
}

}  // namespace ibid
