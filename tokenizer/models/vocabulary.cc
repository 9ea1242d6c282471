#include "tokenizer/models/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <random>

#include "base/check.h"

namespace ibid {

const HashSeed& process_hash_seed() {
  static const HashSeed seed = [] {
    std::random_device device;
    const auto word = [&device] { return uint64_t{device()} << 32 | device(); };
    // Odd, so that no factor of a product is ever zero for all inputs.
    return HashSeed{word() | 1, word() | 1};
  }();
  return seed;
}

Vocabulary::Vocabulary(size_t size)
    : entries_(size), slots_(std::bit_ceil(2 * size + 2)), seed_(process_hash_seed()) {}

void Vocabulary::set_bytes(TokenId id, std::string_view bytes) {
  Entry& entry = entries_[static_cast<size_t>(id)];
  CHECK(!entry.set);
  entry = {blob_.size(), static_cast<uint32_t>(bytes.size()), true};
  blob_.append(bytes);
}

std::string_view Vocabulary::bytes(TokenId id) const {
  if (!has_bytes(id)) return {};
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(blob_).substr(entry.offset, entry.length);
}

// The slot that holds `bytes`, or the free one where they belong.
size_t Vocabulary::probe(std::string_view wanted, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id == kNoToken || (slot.tag == tag && bytes(slot.id) == wanted)) return i;
  }
}

bool Vocabulary::index(TokenId id) {
  const std::string_view text = bytes(id);
  const uint64_t hash = hash_bytes(text, seed_);
  Slot& slot = slots_[probe(text, hash)];
  if (slot.id != kNoToken) return false;
  slot = {static_cast<uint32_t>(hash >> 32), id};
  return true;
}

TokenId Vocabulary::find(std::string_view text) const {
  return slots_[probe(text, hash_bytes(text, seed_))].id;
}

// A look-up goes from the slot to the entry to the bytes, each far from the one before: every step is asked for early.
void Vocabulary::find_all(std::span<const std::string_view> texts, std::span<TokenId> ids) const {
  CHECK_EQ(texts.size(), ids.size());
  constexpr size_t kTogether = 32;
  const size_t mask = slots_.size() - 1;
  std::array<uint64_t, kTogether> hashes;
  for (size_t begin = 0; begin < texts.size(); begin += kTogether) {
    const size_t n = std::min(kTogether, texts.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = hash_bytes(texts[begin + i], seed_);
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    for (size_t i = 0; i < n; ++i) {
      const TokenId first = slots_[hashes[i] & mask].id;
      if (first != kNoToken) __builtin_prefetch(&entries_[static_cast<size_t>(first)]);
    }
    for (size_t i = 0; i < n; ++i) {
      const TokenId first = slots_[hashes[i] & mask].id;
      if (first != kNoToken) __builtin_prefetch(blob_.data() + entries_[static_cast<size_t>(first)].offset);
    }
    for (size_t i = 0; i < n; ++i) ids[begin + i] = slots_[probe(texts[begin + i], hashes[i])].id;
  }
}

}  // namespace ibid
