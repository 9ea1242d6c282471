#include "cache/pages/finite_rows.h"

#include <cstdint>
#include <cstring>

#include "kernels/attention/kv_part_order.h"

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

bool head_is_finite(const KvHeadBlock& block, const std::byte* head) {
  const size_t key_bytes = key_order(block).bytes(), value_bytes = value_order(block).bytes();
  switch (block.dtype) {
    case KvDType::kF32:
      return floats_are_finite(head + block.k, key_bytes) && floats_are_finite(head + block.v, value_bytes);
    case KvDType::kF16:
      return halves_are_finite(head + block.k, key_bytes) && halves_are_finite(head + block.v, value_bytes);
    case KvDType::kInt8: break;
  }
  constexpr size_t kScaleBytes = kPagePositions * sizeof(float);
  return floats_are_finite(head + block.k_scale, kScaleBytes) && floats_are_finite(head + block.v_scale, kScaleBytes);
}

}  // namespace

bool rows_are_finite(const KvLayout& layout, const KvPageParts& page) {
  for (const KvLayer& layer : layout.layers()) {
    if (layer.part == KvPart::kWindow && page.window == nullptr) continue;
    for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
      if (!head_is_finite(layer.block, page.head(layer, head))) return false;
    }
  }
  return true;
}

}  // namespace ibid
