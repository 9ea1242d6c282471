// Vocabulary: maps each token to its bytes, and a byte string to its token.
//
// The two maps differ: every token has bytes for decoding, but only model tokens are found by their bytes
// (AddedTokenSet finds added tokens earlier). Filled while loading, constant and thread-safe after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/token.h"

namespace ibid {

// --- Hashes for vocabularies and merges. The seed is chosen once per process, so that neither a model file nor a text
// can be constructed to cause collisions. Values differ from run to run and must not be stored.

struct HashSeed {
  uint64_t a, b;
};
const HashSeed& process_hash_seed();

inline uint64_t hash_mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_u64(uint64_t value, const HashSeed& seed) { return hash_mix(value ^ seed.a, seed.b); }

inline uint64_t hash_bytes(std::string_view bytes, const HashSeed& seed) {
  const auto load = [](const char* at, size_t n) {
    uint64_t out = 0;
    std::memcpy(&out, at, n);
    return out;
  };
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t state = seed.a ^ n;
  for (; n > 16; p += 16, n -= 16) state = hash_mix(load(p, 8) ^ seed.b, load(p + 8, 8) ^ state);
  uint64_t first = 0, last = 0;
  if (n >= 8) {
    first = load(p, 8);
    last = load(p + n - 8, 8);
  } else if (n >= 4) {
    first = load(p, 4);
    last = load(p + n - 4, 4);
  } else if (n > 0) {
    const auto byte = [p](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(p[i])); };
    first = byte(0) << 16 | byte(n / 2) << 8 | byte(n - 1);
  }
  return hash_mix(hash_mix(first ^ seed.b, last ^ state), seed.a);
}

inline constexpr TokenId kNoToken = -1;

class Vocabulary {
 public:
  // `size`: number of tokens; their ids are 0 to size - 1.
  explicit Vocabulary(size_t size);

  size_t size() const { return entries_.size(); }

  // REQUIRES: 0 <= id < size(), and set_bytes() was not called for `id` before.
  void set_bytes(TokenId id, std::string_view bytes);
  bool has_bytes(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < entries_.size() && entries_[static_cast<size_t>(id)].set;
  }
  // Returns the bytes of a token; empty for an id out of range and for a token without bytes.
  std::string_view bytes(TokenId id) const;

  // Makes find() return `id` for the token's bytes. Returns false if the index already has equal bytes. REQUIRES:
  // set_bytes(id) was called; index() is called at most once per id.
  bool index(TokenId id);
  // True if find() returns `id` for the token's bytes.
  bool is_indexed(TokenId id) const { return has_bytes(id) && entries_[static_cast<size_t>(id)].indexed; }
  TokenId find(std::string_view bytes) const;
  // Calls find() for each entry of `bytes`. Faster than single calls, because cache misses overlap. REQUIRES: both
  // spans have the same size.
  void find_all(std::span<const std::string_view> bytes, std::span<TokenId> ids) const;

 private:
  struct Entry {
    uint64_t offset = 0;
    uint32_t length = 0;
    bool set = false;
    bool indexed = false;
  };
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash: if it differs, the bytes need not be compared
    TokenId id = kNoToken;
  };
  size_t probe(std::string_view bytes, uint64_t hash) const;

  std::string blob_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing; the size is a power of two, at most half of the slots are used
  HashSeed seed_;
};

// --- MergeTable: the merges of a byte pair encoding (Sennrich et al. 2016), and their application to symbols. The
// adjacent pair with the lowest rank is merged first, the leftmost of equals. A symbol is a token id, or a number that
// the owner assigned to a text without a token. O(n log n) in the number of symbols, for any input. Immutable and
// thread-safe.

// A merge as written in files: views of its two sides.
struct TextMerge {
  std::string_view left, right;
};

struct RankedMerge {
  TokenId left, right;
  TokenId result;
  uint32_t rank;  // lower ranks merge first, equal ones from left to right; below MergeTable::kNoRank
};

class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;

  // If a pair has two merges, the later one counts.
  explicit MergeTable(std::span<const RankedMerge> merges);

  // Merges in place until no merge applies. Returns the number n of remaining symbols, which are symbols[0, n).
  size_t merge(std::span<TokenId> symbols) const;

 private:
  static constexpr size_t kShort = 48;  // for more symbols, a heap is faster than scanning all pairs after each merge

  struct Ranked {
    uint32_t rank;
    TokenId result;
  };
  struct Slot {
    uint64_t pair = UINT64_MAX;
    Ranked merge{kNoRank, kNoToken};
  };
  class Heap;

  Ranked find(TokenId left, TokenId right) const;
  size_t merge_short(std::span<TokenId> symbols) const;

  std::vector<Slot> slots_;  // open addressing; the size is a power of two, at most half of the slots are used
  HashSeed seed_;
};

}  // namespace ibid
