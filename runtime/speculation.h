// Speculation without a second model: what the conversation already holds guesses the next ids, and one pass
// of the model verifies several of them.
//
// A guess never changes an answer. The sampler draws for every position from the verified logits just as it would
// without guesses, and a guess counts only if it is the id that was drawn (answer.h). So this file only has to
// decide whether a guess is worth its row of a pass.
//
// It learns that at no extra cost: every sampled id, drafted or not, is compared with what the index would have
// guessed. Guesses are made while that record is good, so text that repeats nothing pays for no row. The record is
// kept up while nothing is drafted.
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

  // Records a match of this length: hit says whether the id that came next was the one that followed the earlier
  // place. REQUIRES: match_length >= SuffixIndex::kMinMatch.
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
  // The ids of the sequence so far. append() is for ids that were given, not sampled: nothing is learnt from them.
  size_t size() const { return index_.size(); }
  void append(TokenSpan ids);
  void truncate(size_t n);  // REQUIRES: n <= size()
  // Drops all ids and keeps what was learnt. May be called in whatever state a call that threw std::bad_alloc left
  // the ids.
  void forget_ids() noexcept;

  // The next id, sampled: recorded, and appended. O(1).
  void push(TokenId id);

  // Becomes what it would be if, behind the first n ids, only the ids `pushed` had been pushed. `learnt` is what
  // policy() was at that point.
  void restore(size_t n, const DraftPolicy& learnt, TokenSpan pushed);

  // Writes ids that are likely to be sampled next, at most n_most, to `draft`, whose contents are dropped. The
  // draft ends in front of an id of `stop_ids`, because nothing is sampled behind one.
  void propose(size_t n_most, const std::vector<TokenId>& stop_ids, Tokens& draft) const;

  const DraftPolicy& policy() const { return policy_; }

 private:
  SuffixIndex index_;
  DraftPolicy policy_;
  SuffixIndex::Match match_;  // of the end, as far as it was sampled; length 0: none
  size_t n_sampled_ = 0;      // ids pushed since anything else
};

}  // namespace ibid
