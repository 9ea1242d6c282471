#include "cache/tier/known_names.h"

namespace ibid {

void KnownNames::add(const PageName& name, KvPageParts parts) {
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.steady_ns();
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    Known& known = *found->second;
    if (parts == KvPageParts::kBoth) known.parts = parts;
    known.since_ns = now_ns;
    by_age_.splice(by_age_.end(), by_age_, found->second);
    return;
  }
  by_age_.push_back({name, parts, now_ns});
  try {
    by_name_.emplace(name, std::prev(by_age_.end()));
  } catch (...) {
    by_age_.pop_back();
    throw;
  }
  if (by_name_.size() <= kMostNames) return;
  by_name_.erase(by_age_.front().name);
  by_age_.pop_front();
}

bool KnownNames::has(const PageName& name, KvPageParts parts) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return false;
  const Known& known = *found->second;
  if (clock_.steady_ns() - known.since_ns >= kForgetNs) return false;
  return parts == KvPageParts::kFirst || known.parts == KvPageParts::kBoth;
}

void KnownNames::forget(const PageName& name) {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  by_age_.erase(found->second);
  by_name_.erase(found);
}

void KnownNames::clear() {
  const std::lock_guard lock(mutex_);
  by_name_.clear();
  by_age_.clear();
}

}  // namespace ibid
