// SuffixIndex: finds where in a sequence the ids at its end have stood before, and what followed them there. Drafts
// come from it without a second model, because text that is copied, corrected or quoted repeats what the
// conversation already holds.
//
// Every place is linked to the place before it that ends in the same three ids; a table leads from three
// ids to the last such place. Ids are compared, a hash only finds the slot. append() and find() are O(1): they look
// at a bounded number of places whatever the ids are, even in text that was chosen to collide. truncate() undoes
// appends one by one, so a conversation that is rewound costs what it drops.
//
// It is not a predictor: whether a guess is worth verifying is for DraftPolicy to say. It knows nothing of
// messages or of keys and values.
// A value: 16 to 24 bytes per id. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ibid/token.h"

namespace ibid {

class SuffixIndex {
 public:
  static constexpr size_t kMinMatch = 3;      // ids that must be the same
  static constexpr size_t kMaxMatch = 32;     // longer matches count as this long
  static constexpr size_t kMaxCandidates = 8; // earlier places that are compared, the latest first
  static constexpr size_t kMaxProbes = 32;    // slots looked at for three ids; beyond, they are not indexed

  // The ids in front of `next` are the last `length` ids of the sequence.
  struct Match {
    size_t next = 0;
    size_t length = 0;  // kMinMatch to kMaxMatch; 0: no match
  };

  size_t size() const { return ids_.size(); }
  TokenSpan ids() const { return ids_; }

  // Amortised O(1) per id.
  void append(TokenId id);
  void append(TokenSpan ids);
  // Keeps the first n ids. O(ids dropped). REQUIRES: n <= size().
  void truncate(size_t n);

  // Of the kMaxCandidates latest earlier places that end in the last kMinMatch ids, the one with the longest
  // match; the latest of equals.
  Match find() const;
  // The id that stands `offset` ids behind a match. Beyond the sequence's end it goes on periodically: behind
  // "ababab" comes "ab". REQUIRES: a match that find() returned since the last change.
  TokenId continuation(const Match& match, size_t offset) const;

  // Slots and ids looked at so far: what bounds and tests hold to account.
  size_t n_steps() const { return n_steps_; }
  // The number that chooses the slot of three ids, from its low bits up. Public so that tests can collide.
  static uint64_t hash(const TokenId* trigram);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kNoSlot = SIZE_MAX;

  // The slot of the three ids that end at `place`: theirs, or the empty one for them; kNoSlot when neither is
  // near.
  size_t find_slot(size_t place) const;
  void link(size_t place);
  void grow();

  Tokens ids_;
  std::vector<uint32_t> earlier_;  // [size()] the place before with the same three ids, kNone
  std::vector<uint32_t> slots_;    // the last place of some three ids, kNone; 2^n of them, at least 2 * size()
  mutable size_t n_steps_ = 0;
};

}  // namespace ibid
