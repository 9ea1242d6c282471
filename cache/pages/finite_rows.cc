#include "cache/pages/finite_rows.h"

#include <cstdint>
#include <cstring>

#include "kernels/layout/kv_head_block.h"

namespace ibid {
namespace {

// All exponent bits set: NaN or infinity. Without a branch, so that it is done in vectors.
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

// numbers, scales: where they begin. Of a part in codes, the scales are all that may be anything else than a number.
bool part_is_finite(KvPart part, const KvPartOrder& order, const std::byte* numbers, const std::byte* scales,
                    size_t scale_bytes) {
  switch (part) {
    case KvPart::kF32: return floats_are_finite(numbers, order.bytes());
    case KvPart::kF16: return halves_are_finite(numbers, order.bytes());
    case KvPart::kInt8: return floats_are_finite(scales, scale_bytes);
    case KvPart::kInt4: break;
  }
  return halves_are_finite(scales, scale_bytes);
}

bool head_is_finite(const KvHeadBlock& block, const std::byte* head) {
  const auto scale_bytes = [&](KvPart part) { return KvScales::of(block, part).all_bytes(); };
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
