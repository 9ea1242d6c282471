// Byte-level byte pair encoding (Sennrich et al. 2016; GPT-2): the ids of one piece of text.
//
// The pair of neighbours with the lowest rank is merged first, the leftmost of equals; the rank of a merge is
// its place in the list, never the id of its result. O(n log n) in the length of the piece, whatever it
// holds. Immutable and thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "tokenizer/seeded_hash.h"
#include "tokenizer/vocabulary.h"

namespace ibid {

struct Merge {
  TokenId left, right;
  TokenId result;  // its bytes are those of left and right, joined
};

struct BpeModel {
  std::array<TokenId, 256> byte_ids;  // kNoToken: the vocabulary lacks the byte, and it vanishes from the ids
  std::vector<Merge> merges;          // by rank; of two merges of one pair the later counts
  bool ignore_merges = false;         // a piece that is a token is that token, reachable by merges or not
  std::vector<bool> is_control;       // by id: what message text must never become
};

class Bpe {
 public:
  // `vocabulary` must outlive the object. REQUIRES: every id of `model` has bytes in it.
  Bpe(const Vocabulary& vocabulary, BpeModel model);

  // Appends the ids of `piece`. Without allow_control, a merge that would give a control token is left
  // undone: only vocabularies that let plain text merge into one ever differ.
  void encode(std::string_view piece, bool allow_control, Tokens& out) const;

 private:
  struct Ranked {
    uint32_t rank;
    TokenId result;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;
  static constexpr size_t kShortPiece = 48;  // beyond, a heap beats looking at every pair again

  Ranked find_merge(TokenId left, TokenId right) const;
  void merge_short(std::string_view piece, Tokens& out) const;
  void merge_long(std::string_view piece, Tokens& out) const;
  bool is_control(TokenId id) const;
  void undo_control(size_t begin, Tokens& out) const;

  struct Slot {
    uint64_t pair = UINT64_MAX;
    Ranked merge{kNoRank, kNoToken};
  };
  // Whether merges turn the bytes of a token into that token: found out when first asked, and the same for
  // every thread that asks.
  enum Reachable : uint8_t { kUnknown, kYes, kNo };

  const Vocabulary* vocabulary_;
  BpeModel model_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  HashSeed seed_;
  std::unique_ptr<std::atomic<uint8_t>[]> reachable_;
  std::unordered_map<TokenId, Merge> control_merges_;  // by result; empty for every published vocabulary
};

}  // namespace ibid
