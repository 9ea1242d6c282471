// KvChangeQueue: passes the changes of the pages of a store from the threads that change the store to the thread that
// publishes them (server/events/kv_event_publisher.h). Neither waits for the other. If the queue is full, or memory is
// out, it drops its changes and is outdated until the reader lists all pages. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/store_observer.h"
#include "ibid/token.h"

namespace ibid {
class LruKvCacheStore;
}

namespace ibid::serve {

// A page that was stored (it has tokens) or removed.
struct KvChange {
  uint64_t serial = 0;
  uint64_t before = 0;
  std::string name_space = {};
  bool is_shared = false;
  Tokens tokens = {};
};

class KvChangeQueue final : public StoreObserver, public std::enable_shared_from_this<KvChangeQueue> {
 public:
  static constexpr size_t kMaxChanges = 65'536;  // a list of all pages may be longer

  // Call list() after this. wake: called on any thread after a change; must not wait or throw.
  KvChangeQueue(LruKvCacheStore& store, std::function<void()> wake) : store_(&store), wake_(std::move(wake)) {}

  struct Taken {
    bool is_outdated = false;  // changes were dropped; `changes` is empty then
    bool is_list = false;      // the changes begin with a list of all pages
    bool has_ended = false;    // the store was destroyed
    std::vector<KvChange> changes = {};
  };
  // Takes all changes since the last call. After an outdated one the queue stays outdated until list().
  Taken take();
  // Lets the store report all its pages, which replace the changes in the queue. Does nothing after the store's end.
  void list();

  void page_stored(const StoredPage& page) noexcept override;
  void page_removed(uint64_t serial) noexcept override;
  void pages_outdated() noexcept override;
  void list_begins() noexcept override;
  void list_ends() noexcept override;
  void store_ends() noexcept override;

 private:
  template <typename Make>
  void add(const Make& make) noexcept;

  // Guards the pointer while list() uses the store, which then takes its own lock, and within that mutex_.
  std::mutex store_mutex_;
  LruKvCacheStore* store_;

  const std::function<void()> wake_;
  std::mutex mutex_;  // guards the following members
  Taken taken_;
  bool is_listing_ = false;
};

}  // namespace ibid::serve
