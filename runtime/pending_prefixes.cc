#include "runtime/pending_prefixes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cache/token_prefix.h"
#include "kernels/kernels.h"

namespace ibid {

PendingPrefixes::Reading::Reading(PendingPrefixes& pending, std::string_view name_space, TokenSpan ids)
    : pending_(pending), name_space_(name_space), ids_(ids.begin(), ids.end()) {
  const std::lock_guard lock(pending_.mutex_);
  place_ = pending_.readings_.insert(pending_.readings_.end(), this);
}

PendingPrefixes::Reading::~Reading() {
  const std::lock_guard lock(pending_.mutex_);
  pending_.readings_.erase(place_);
  pending_.moved_.notify_all();
}

void PendingPrefixes::Reading::published(size_t n) {
  const std::lock_guard lock(pending_.mutex_);
  n_published_ = std::max(n_published_, n);
  pending_.moved_.notify_all();
}

PendingPrefixes::Waited PendingPrefixes::Reading::wait_for_earlier(size_t n_held, std::stop_token stop) {
  std::unique_lock lock(pending_.mutex_);
  const Reading* best = nullptr;
  size_t best_length = 0;
  for (auto it = pending_.readings_.begin(); it != place_; ++it) {
    if ((*it)->name_space_ != name_space_) continue;
    // Pages are published whole.
    const size_t length = common_prefix_length((*it)->ids_, ids_) / kPagePositions * kPagePositions;
    if (length > best_length) {
      best = *it;
      best_length = length;
    }
  }
  if (best == nullptr || best_length < n_held + kPagePositions) return Waited::kNothing;
  const auto is_over = [&] { return std::find(pending_.readings_.begin(), place_, best) == place_; };
  const auto moves_on = [&] { return is_over() || best->n_published_ >= best_length; };
  if (!pending_.moved_.wait(lock, std::move(stop), moves_on)) return Waited::kStopped;
  return is_over() ? Waited::kOver : Waited::kPublished;
}

}  // namespace ibid
