#include "runtime/generate/checkpoint_positions.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/kernels.h"

namespace ibid {

StateShare state_share(size_t state_bytes, size_t max_seq_len, size_t budget_bytes) {
  constexpr size_t kLeast = 512;
  const size_t n_states = std::max<size_t>(budget_bytes / 4 / state_bytes, 1);
  const size_t spacing = (max_seq_len + n_states - 1) / n_states;
  return {std::max(kLeast, (spacing + kPagePositions - 1) / kPagePositions * kPagePositions), n_states};
}

CheckpointPositions::CheckpointPositions(size_t n_read, size_t n_prompt, const BranchPoints& branch_points,
                                         const StateShare& share)
    : keeps_(share.spacing > 0) {
  if (!keeps_) return;
  const auto add = [&](size_t border) {
    if (border > n_read && border < n_prompt) positions_.push_back(border);
  };
  add(branch_points.first_turn_boundary);
  first_turn_boundary_ = positions_.empty() ? 0 : branch_points.first_turn_boundary;
  for (size_t at = n_read / share.spacing * share.spacing + share.spacing; at < n_prompt; at += share.spacing) add(at);
  if (saturating_sub(n_prompt, n_read) > kMostKeptRows) add(n_prompt - kPromptEnd);
  // Uses only the first of several branch points (positions at answers) that are close together. Most edits are late in
  // the conversation, so the last answers are preferred.
  const size_t n_left = saturating_sub(share.n_most, positions_.size());
  std::vector<size_t> apart;
  for (size_t before = std::max(n_read, branch_points.first_turn_boundary);
       const size_t branch_point : branch_points.answers) {
    if (branch_point < before + kLeastApart || branch_point + kPromptEnd >= n_prompt) continue;
    apart.push_back(branch_point);
    before = branch_point;
  }
  for (size_t i = saturating_sub(apart.size(), n_left); i < apart.size(); ++i) add(apart[i]);
  std::sort(positions_.begin(), positions_.end());
  positions_.erase(std::unique(positions_.begin(), positions_.end()), positions_.end());
}

size_t CheckpointPositions::next(size_t begin, size_t end) const {
  const auto next = std::upper_bound(positions_.begin(), positions_.end(), begin);
  return next == positions_.end() ? end : std::min(*next, end);
}

size_t CheckpointPositions::last(size_t n) const {
  const auto after = std::upper_bound(positions_.begin(), positions_.end(), n);
  return after == positions_.begin() ? 0 : *std::prev(after);
}

void CheckpointPositions::keep(KvCacheEntry& entry, bool is_end) const {
  if (!keeps_) return;
  if (is_end) {
    entry.state().keep_last_pass(entry.length());
  } else if (std::ranges::binary_search(positions_, entry.length())) {
    entry.state().keep_here(entry.length());
  }
}

}  // namespace ibid
