// MergeTable: the merges of a byte pair encoding (Sennrich et al. 2016), and their application to a row of symbols.
//
// The pair of neighbours with the lowest rank is merged first, the leftmost of equals. A symbol is a token's id, or any
// other number that the owner gave to something that is no token. O(n log n) in the number of symbols, whatever they
// are. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ibid/token.h"
#include "tokenizer/models/seeded_hash.h"
#include "tokenizer/models/vocabulary.h"

namespace ibid {

// A merge as files write it: its two sides. Views.
struct TextMerge {
  std::string_view left, right;
};

struct RankedMerge {
  TokenId left, right;
  TokenId result;
  uint32_t rank;  // merges of equal rank differ by place alone; below MergeTable::kNoRank
};

class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;

  // If a pair has two merges, the later one counts.
  explicit MergeTable(std::span<const RankedMerge> merges);

  // Merges until nothing can be merged; the result stands in the first places. Returns how many they are.
  size_t merge(std::span<TokenId> symbols) const;

 private:
  static constexpr size_t kShort = 48;  // beyond, a heap beats looking at every pair again

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

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  HashSeed seed_;
};

}  // namespace ibid
