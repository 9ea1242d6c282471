#include "runtime/session/session_branch.h"

#include <algorithm>
#include <utility>

namespace ibid {

size_t HistoryIndexes::index(const PromptIds& prompt) {
  // Also correct if the turn fails: the first n_indexed_ tokens are those of the transcript in any case.
  n_indexed_ = std::min(n_indexed_, prompt.n_keep());
  const Tokens ids = prompt.from(n_indexed_);
  drafter_.truncate(n_indexed_);
  drafter_.append(ids);
  return ids.size();
}

size_t HistoryIndexes::checkout(const PromptIds& prompt, Sampler& sampler) {
  const size_t n_steps = history_.n_steps();
  // Also correct if the turn fails: the first n_counted_ tokens are those of the transcript in any case.
  n_counted_ = std::min({n_counted_, prompt.n_keep(), history_.size()});
  history_.truncate(n_counted_);
  history_.append(prompt.from(n_counted_));
  sampler.begin_answer(std::exchange(history_, TokenHistory()));
  return sampler.history().n_steps() - n_steps;
}

void HistoryIndexes::settle(size_t n_keep, size_t n_tokens, bool indexed, bool counted) noexcept {
  n_indexed_ = std::min(indexed ? drafter_.size() : std::min(n_indexed_, n_keep), n_tokens);
  n_counted_ = std::min(counted ? history_.size() : std::min(n_counted_, n_keep), n_tokens);
}

void HistoryIndexes::forget() noexcept {
  drafter_.forget_tokens();
  n_indexed_ = 0;
  history_ = TokenHistory();
  n_counted_ = 0;
}

}  // namespace ibid
