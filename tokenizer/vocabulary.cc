#include "tokenizer/vocabulary.h"

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

bool Vocabulary::has_bytes(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < entries_.size() && entries_[static_cast<size_t>(id)].set;
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

}  // namespace ibid
