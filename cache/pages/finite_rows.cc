#include "cache/pages/finite_rows.h"

#include <cstdint>
#include <cstring>

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

bool floats_are_finite(const std::byte* bytes, size_t n) {
  return are_finite<uint32_t>(bytes, n * sizeof(uint32_t), 0x7f800000);
}
bool halves_are_finite(const std::byte* bytes, size_t n) {
  return are_finite<uint16_t>(bytes, n * sizeof(uint16_t), 0x7c00);
}

bool head_is_finite(const KvHeadBlock& block, const std::byte* head) {
  const size_t n_keys = kPagePositions * block.head_dim, n_values = kPagePositions * block.v_dim;
  switch (block.dtype) {
    case KvDType::kF32: return floats_are_finite(head + block.k, n_keys) && floats_are_finite(head + block.v, n_values);
    case KvDType::kF16: return halves_are_finite(head + block.k, n_keys) && halves_are_finite(head + block.v, n_values);
    case KvDType::kInt8: break;
  }
  return floats_are_finite(head + block.k_scale, kPagePositions) &&
         floats_are_finite(head + block.v_scale, kPagePositions);
}

}  // namespace

bool rows_are_finite(const KvLayout& layout, const std::byte* page) {
  for (const KvLayer& layer : layout.layers()) {
    for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
      if (!head_is_finite(layer.block, page + layer.head_offset(head))) return false;
    }
  }
  return true;
}

}  // namespace ibid
