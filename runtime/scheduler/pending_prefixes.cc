#include "runtime/scheduler/pending_prefixes.h"

#include <algorithm>
#include <iterator>

#include "base/token_prefix.h"

namespace ibid {

PendingPrefixes::PendingPrefill::PendingPrefill(PendingPrefixes& pending, std::string_view name_space, TokenSpan ids)
    : pending_(pending), name_space_(name_space), ids_(ids) {
  const std::lock_guard lock(pending_.mutex_);
  place_ = pending_.prefills_.insert(pending_.prefills_.end(), this);
}

PendingPrefixes::PendingPrefill::~PendingPrefill() {
  const std::lock_guard lock(pending_.mutex_);
  pending_.prefills_.erase(place_);
  pending_.n_changes_.fetch_add(1, std::memory_order_release);
}

void PendingPrefixes::PendingPrefill::published(size_t n) {
  const std::lock_guard lock(pending_.mutex_);
  n_published_ = std::max(n_published_, n);
  pending_.n_changes_.fetch_add(1, std::memory_order_release);
}

bool PendingPrefixes::PendingPrefill::is_awaited(size_t begin, size_t end) const {
  const std::lock_guard lock(pending_.mutex_);
  return std::any_of(std::next(place_), pending_.prefills_.end(), [&](const PendingPrefill* later) {
    return later->awaited_ == this && later->n_awaited_ >= begin && later->n_awaited_ < end;
  });
}

// Chooses for which of the prefills that began earlier this one waits: the one with the longest common prefix.
bool PendingPrefixes::PendingPrefill::choose_awaited(size_t n_held) {
  n_awaited_ = 0;
  for (auto it = pending_.prefills_.begin(); it != place_; ++it) {
    if ((*it)->name_space_ != name_space_) continue;
    const size_t n = common_prefix_length((*it)->ids_, ids_) / pending_.unit_ * pending_.unit_;
    if (n <= n_awaited_) continue;
    awaited_ = *it;
    n_awaited_ = n;
  }
  if (n_awaited_ < n_held + kPagePositions) awaited_ = nullptr;
  return awaited_ != nullptr;
}

PendingPrefixes::Earlier PendingPrefixes::PendingPrefill::earlier_state(size_t n_held) {
  const std::lock_guard lock(pending_.mutex_);
  if (awaited_ == nullptr && !choose_awaited(n_held)) return Earlier::kNothing;
  const bool is_over = std::find(pending_.prefills_.begin(), place_, awaited_) == place_;
  if (!is_over && awaited_->n_published_ < n_awaited_) return Earlier::kPrefilling;
  awaited_ = nullptr;
  return is_over ? Earlier::kOver : Earlier::kPublished;
}

}  // namespace ibid
