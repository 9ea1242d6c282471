#include "cache/tier/store_epochs.h"

#include <algorithm>

namespace ibid {

namespace {

constexpr size_t kMostEpochs = size_t{1} << 16;

}  // namespace

Result<StoreEpochs::Current> StoreEpochs::current(const Sha256Digest& name_space, ReadTimer& timer) {
  TRY_ASSIGN(const uint64_t stored, store_.epoch(name_space, timer));
  Current now;
  {
    const std::lock_guard lock(mutex_);
    if (epochs_.size() >= kMostEpochs) epochs_.clear();
    uint64_t& own = epochs_[name_space];
    now.was_cleared = stored > own && own > 0;
    if (stored == 0 && own == 0) own = static_cast<uint64_t>(clock_.unix_ns());
    now.epoch = own = std::max(own, stored);
  }
  if (now.epoch > stored) TRY(store_.raise_epoch(name_space, now.epoch));
  return now;
}

Result<StoreEpochs::Current> StoreEpochs::known(const Sha256Digest& name_space) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto own = epochs_.find(name_space); own != epochs_.end() && own->second > 0) return Current{own->second};
  }
  const ReadLimits limits;
  ReadTimer timer(limits, clock_);
  return current(name_space, timer);
}

Status StoreEpochs::begin(const Sha256Digest& name_space) {
  uint64_t epoch = 0;
  {
    const std::lock_guard lock(mutex_);
    uint64_t& own = epochs_[name_space];
    epoch = own = std::max(own + 1, static_cast<uint64_t>(clock_.unix_ns()));
  }
  return store_.raise_epoch(name_space, epoch);
}

}  // namespace ibid
