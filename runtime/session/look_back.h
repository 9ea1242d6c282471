// LookBack: what drafts and penalties look back on, in one line of a conversation: the drafter's index and the counts
// of a token history. Both lag behind the transcript and catch up when a turn needs them, at the cost of what is new.
//
// What holds between turns: the drafter's first n_indexed_ ids and the history's first n_counted_ are the
// transcript's. What stands behind them is of turns that came to nothing.
//
// A value, needing no engine; a copy goes on on its own. Not thread-safe.
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

  // Makes the drafter hold the ids of the prompt. Returns how many ids were new to it. After std::bad_alloc only
  // forget() may be called.
  size_t index(const PromptIds& prompt);
  // Gives the sampler the history, with the ids of the prompt, until take_back(). Returns the steps that it took.
  size_t lend(const PromptIds& prompt, Sampler& sampler);
  void take_back(TokenHistory history) { history_ = std::move(history); }
  // Keeps the ids that a failed answer had sampled, for the turn that follows.
  void expect(Tokens sampled) noexcept { expected_ = std::move(sampled); }
  Tokens take_expected() noexcept { return std::exchange(expected_, {}); }

  // The turn is committed: its prompt kept n_keep ids, the transcript has n_ids now. indexed: by index(), and the
  // answer's ids since; counted: by lend(), likewise.
  void settle(size_t n_keep, size_t n_ids, bool indexed, bool counted) noexcept;
  // Forgets index and history, whatever state they are in; they are made again when they are needed. What was learnt
  // about drafts stays.
  void forget() noexcept;

 private:
  Drafter drafter_;
  size_t n_indexed_ = 0;
  TokenHistory history_;  // kept up only by turns with penalties
  size_t n_counted_ = 0;
  Tokens expected_;
};

}  // namespace ibid
