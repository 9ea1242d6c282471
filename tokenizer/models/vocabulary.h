// Vocabulary: the bytes of every id, and the id of a byte string.
//
// These are two relations, because they differ: every id has bytes to show, but a piece of text can only become a
// model token (AddedTokenSet finds added tokens before). Filled while loading, constant and thread-safe after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/token.h"
#include "tokenizer/models/seeded_hash.h"

namespace ibid {

inline constexpr TokenId kNoToken = -1;

class Vocabulary {
 public:
  // Ids run from 0 to size - 1.
  explicit Vocabulary(size_t size);

  size_t size() const { return entries_.size(); }

  // REQUIRES: 0 <= id < size(), no bytes set for it yet.
  void set_bytes(TokenId id, std::string_view bytes);
  bool has_bytes(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < entries_.size() && entries_[static_cast<size_t>(id)].set;
  }
  // Empty for ids out of range and ids without bytes.
  std::string_view bytes(TokenId id) const;

  // Makes find() answer `id` to its bytes. False when other bytes of the same value are there already.
  // REQUIRES: set_bytes(id) was called; index() is called at most once per id.
  bool index(TokenId id);
  TokenId find(std::string_view bytes) const;
  // As find() of each, faster for many: they wait for memory together. REQUIRES: both of one size.
  void find_all(std::span<const std::string_view> bytes, std::span<TokenId> ids) const;

 private:
  struct Entry {
    uint64_t offset = 0;
    uint32_t length = 0;
    bool set = false;
  };
  struct Slot {
    uint32_t tag = 0;  // the upper half of the hash: most misses never look at bytes
    TokenId id = kNoToken;
  };
  size_t probe(std::string_view bytes, uint64_t hash) const;

  std::string blob_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  HashSeed seed_;
};

}  // namespace ibid
