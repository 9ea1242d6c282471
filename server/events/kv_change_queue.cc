#include "server/events/kv_change_queue.h"

#include <new>
#include <utility>

#include "cache/store/lru_kv_cache_store.h"

namespace ibid::serve {

template <typename Make>
void KvChangeQueue::add(const Make& make) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (taken_.is_outdated) return;
    bool fits = is_listing_ || taken_.changes.size() < kMaxChanges;
    try {
      if (fits) taken_.changes.push_back(make());
    } catch (const std::bad_alloc&) {
      fits = false;
    }
    if (!fits) taken_ = {.is_outdated = true, .has_ended = taken_.has_ended};
    if (is_listing_) return;  // list_ends() wakes the reader
  }
  wake_();
}

void KvChangeQueue::page_stored(const StoredPage& page) noexcept {
  add([&] {
    return KvChange{.serial = page.serial,
                    .before = page.before,
                    .name_space = std::string(page.name_space),
                    .is_shared = page.is_shared,
                    .tokens = Tokens(page.tokens.begin(), page.tokens.end())};
  });
}

void KvChangeQueue::page_removed(uint64_t serial) noexcept {
  add([&] { return KvChange{.serial = serial}; });
}

void KvChangeQueue::pages_outdated() noexcept {
  {
    const std::lock_guard lock(mutex_);
    taken_ = {.is_outdated = true, .has_ended = taken_.has_ended};
  }
  wake_();
}

void KvChangeQueue::list_begins() noexcept {
  const std::lock_guard lock(mutex_);
  taken_ = {.is_list = true, .has_ended = taken_.has_ended};
  is_listing_ = true;
}

void KvChangeQueue::list_ends() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_listing_ = false;
  }
  wake_();
}

void KvChangeQueue::store_ends() noexcept {
  {
    const std::lock_guard lock(store_mutex_);
    store_ = nullptr;
  }
  {
    const std::lock_guard lock(mutex_);
    taken_ = {.has_ended = true};
  }
  wake_();
}

KvChangeQueue::Taken KvChangeQueue::take() {
  const std::lock_guard lock(mutex_);
  Taken taken = std::exchange(taken_, {.is_outdated = taken_.is_outdated, .has_ended = taken_.has_ended});
  return taken;
}

void KvChangeQueue::list() {
  const std::lock_guard lock(store_mutex_);
  if (store_ != nullptr) store_->observe(shared_from_this());
}

}  // namespace ibid::serve
