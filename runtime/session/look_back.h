// LookBack: indexes of the past tokens of a branch, for drafts and penalties: the drafter's index and the counts of a
// token history. Both lag behind the transcript and catch up when a turn needs them, at the cost of the new tokens.
//
// Invariant between turns: the drafter's first n_indexed_ tokens and the history's first n_counted_ are the
// transcript's. Later tokens are of failed turns.
//
// A value that needs no engine; copies are independent. Not thread-safe.
#pragma once

#include <cstddef>
#include <utility>

#include "ibid/token.h"
#include "runtime/prompt/prompt_delta.h"
#include "sampling/sampler.h"
#include "sampling/speculation.h"
#include "sampling/token_history.h"

namespace ibid {

class LookBack {
 public:
  Drafter& drafter() { return drafter_; }

  // Updates the drafter to the tokens of the prompt. Returns the number of new tokens. After std::bad_alloc only
  // forget() may be called.
  size_t index(const PromptIds& prompt);
  // Moves the history, with the tokens of the prompt, to the sampler until take_back(). Returns the steps this took.
  size_t checkout(const PromptIds& prompt, Sampler& sampler);
  void take_back(TokenHistory history) { history_ = std::move(history); }
  // Keeps the tokens that a failed answer had sampled, as drafts for the next turn.
  void expect(Tokens sampled) noexcept { expected_ = std::move(sampled); }
  Tokens take_expected() noexcept { return std::exchange(expected_, {}); }

  // Commits a turn whose prompt kept n_keep tokens; the transcript has n_ids now. indexed: index() was called and the
  // answer's tokens were added; counted: the same for checkout() and the history.
  void settle(size_t n_keep, size_t n_ids, bool indexed, bool counted) noexcept;
  // Drops index and history in any state; they are rebuilt when needed. The drafter's statistics stay.
  void forget() noexcept;

 private:
  Drafter drafter_;
  size_t n_indexed_ = 0;
  TokenHistory history_;  // updated only by turns with penalties
  size_t n_counted_ = 0;
  Tokens expected_;
};

}  // namespace ibid
