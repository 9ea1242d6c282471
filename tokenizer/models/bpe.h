// Byte-level byte pair encoding (Sennrich et al. 2016; GPT-2): the ids of one piece of text.
//
// The rank of a merge is its place in the list, never the id of its result. O(n log n) in the length of the piece,
// whatever it holds. Immutable and thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ibid/token.h"
#include "tokenizer/models/merge_table.h"
#include "tokenizer/models/vocabulary.h"

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
  static constexpr size_t kShortPiece = 48;  // bytes that need no memory from the heap

  bool is_control(TokenId id) const;
  void merge(std::string_view piece, Tokens& out) const;
  void undo_control(size_t begin, Tokens& out) const;

  // Whether merges turn the bytes of a token into that token: found out when first asked, and the same for
  // every thread that asks.
  enum Reachable : uint8_t { kUnknown, kYes, kNo };

  const Vocabulary* vocabulary_;
  BpeModel model_;
  MergeTable merges_;
  std::unique_ptr<std::atomic<uint8_t>[]> reachable_;
  std::unordered_map<TokenId, Merge> control_merges_;  // by result; empty for every published vocabulary
};

}  // namespace ibid
