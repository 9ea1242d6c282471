// Speculation without a second model: what the conversation already holds guesses the next ids, and one pass
// of the model verifies several of them.
//
// A guess never changes an answer. The sampler draws for every position from the verified logits just as
// it would without guesses, and a guess counts only where it is what was drawn (generate.h). So all there is
// to get right here is whether a guess is worth its row of a pass.
//
// That is learnt for nothing: at every sampled id, drafted or not, what the index would have guessed is held
// against it. Guesses are made where that record is good, so text that repeats nothing pays for no
// row, and the record goes on being kept while nothing is drafted.
//
// Values: a fork of a session copies them. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/types.h"
#include "runtime/suffix_index.h"

namespace ibid {

// How often guesses were right, by the length of the match they came from, recent ones counting more; and how
// many ids in a row are worth verifying.
class DraftPolicy {
 public:
  static constexpr size_t kMaxDraft = 7;  // and the id in front of it: eight rows

  DraftPolicy();

  // What came behind a match of this length was what followed it before, or was not.
  // REQUIRES: match_length >= SuffixIndex::kMinMatch.
  void record(size_t match_length, bool hit);
  double hit_rate(size_t match_length) const;

  // How many ids to draft behind a match: the number that gives the most ids for the time of the pass, at
  // most n_most; 0 when no number gains enough. 0 for match_length 0.
  size_t n_drafts(size_t match_length, size_t n_most) const;

 private:
  static constexpr size_t kClasses = 7;
  struct Record {
    double hits = 0;
    double tries = 0;
  };
  static size_t class_of(size_t match_length);

  std::array<Record, kClasses> records_;
};

// The guesses of one conversation.
class Drafter {
 public:
  // The ids of the sequence so far. Of what was given, not sampled: nothing is learnt from it.
  size_t size() const { return index_.size(); }
  void append(TokenSpan ids);
  void truncate(size_t n);  // REQUIRES: n <= size()
  // No ids; what was learnt stays. In whatever state a call that threw std::bad_alloc left the ids.
  void forget_ids() noexcept;

  // The next id, sampled: recorded, and appended. O(1).
  void push(TokenId id);

  // Becomes what it would be if of the ids pushed behind the first n only `pushed` had been; `learnt` is policy() of
  // then.
  void restore(size_t n, const DraftPolicy& learnt, TokenSpan pushed);

  // Ids that are likely to be sampled next, at most n_most, into `draft` (whose contents go). Ends in front of
  // an id of `stop_ids`: behind it nothing is sampled.
  void propose(size_t n_most, const std::vector<TokenId>& stop_ids, Tokens& draft) const;

  const DraftPolicy& policy() const { return policy_; }

 private:
  SuffixIndex index_;
  DraftPolicy policy_;
  SuffixIndex::Match match_;  // of the end, as far as it was sampled; length 0: none
  size_t n_sampled_ = 0;      // ids pushed since anything else
};

}  // namespace ibid
