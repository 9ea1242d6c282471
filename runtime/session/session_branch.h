// SessionBranch: one branch of a conversation, with all that a fork has of its own: messages (Dialogue), keys and
// values (SequenceCache), and indexes for drafts and penalties (HistoryIndexes). Each of the three keeps its own
// invariants; only a committed turn changes all of them together (RunningTurn). Internal.
//
// A value, for one thread at a time, that of the session's current call. A copy copies text and tokens, but no pages.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "ibid/token.h"
#include "runtime/prompt/prompt_delta.h"
#include "runtime/session/dialogue.h"
#include "runtime/session/sequence_cache.h"
#include "sampling/sampler.h"
#include "sampling/speculation.h"
#include "sampling/token_history.h"

namespace ibid {

// Indexes of the past tokens of a branch: the drafter's index, and the counts of a token history for penalties. Both
// lag behind the transcript and catch up when a turn needs them, at the cost of the new tokens. Needs no engine.
//
// Invariant between turns: the drafter's first n_indexed_ tokens and the history's first n_counted_ are the
// transcript's. Tokens after these are from failed turns.
class HistoryIndexes {
 public:
  Drafter& drafter() { return drafter_; }

  // Updates the drafter to the tokens of the prompt. Returns the number of new tokens. After std::bad_alloc only
  // forget() may be called.
  size_t index(const PromptIds& prompt);
  // Updates the history to the tokens of the prompt, and moves it to the sampler until take_back(). Returns the number
  // of steps that the update took.
  size_t checkout(const PromptIds& prompt, Sampler& sampler);
  void take_back(TokenHistory history) { history_ = std::move(history); }
  // Keeps the tokens that a failed answer had sampled, as drafts for the next turn.
  void expect(Tokens sampled) noexcept { expected_ = std::move(sampled); }
  Tokens take_expected() noexcept { return std::exchange(expected_, {}); }

  // Commits a turn whose prompt kept n_keep tokens; the transcript has n_tokens now. indexed: index() was called and
  // the answer's tokens were added; counted: checkout() was called, and they were added to the history.
  void settle(size_t n_keep, size_t n_tokens, bool indexed, bool counted) noexcept;
  // Drops index and history in any state; they are rebuilt when needed. The drafter's statistics stay.
  void forget() noexcept;

 private:
  Drafter drafter_;
  size_t n_indexed_ = 0;
  TokenHistory history_;  // updated only by turns with penalties
  size_t n_counted_ = 0;
  Tokens expected_;
};

struct SessionBranch {
  Dialogue dialogue;
  SequenceCache cache;
  HistoryIndexes history_indexes;
};
static_assert(std::is_nothrow_move_assignable_v<SessionBranch>);

}  // namespace ibid
