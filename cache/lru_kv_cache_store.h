// LruKvCacheStore: what has been read by any sequence, live ones included, findable by its ids.
//
// A prefix tree over the pages of all inserted entries (cache/prefix_tree.h). A lookup compares ids, there is
// no hash, and returns an entry that shares pages: whole ones for good, at most one partial page until that
// entry's first reserve() copies its rows. The store holds references, not copies; what a session holds
// itself costs nothing extra and is never evicted.
//
// Eviction: least recently used first, the tail pages of a sequence before its head, never a page that is
// pinned or that an entry holds (it would free nothing). The store installs itself as the pool's reclaim, so
// pages wanted by a session push out what was not used for the longest time.
//
// Namespaces isolate users: what one inserted another never finds, unless it was inserted as shared. An entry
// belongs to one namespace for life: the one it was found in or is inserted into first.
//
// Thread-safe, one mutex. It never asks the pool for pages, so reclaim cannot dead-lock. The pool must
// outlive it, and nobody may allocate from the pool while the store is destroyed.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "cache/kv_cache_entry.h"
#include "cache/prefix_tree.h"
#include "cache/store_invariants.h"

namespace ibid {

enum class Sharing {
  kPrivate,  // found by the same namespace only
  kShared,   // found by every namespace: its ids can be probed by anybody, so only for what is no secret
};

// Counted since the namespace's first insertion (the store: since construction). A namespace whose last page
// went is forgotten, counters included.
struct StoreStats {
  size_t lookups = 0;
  size_t hits = 0;           // lookups that found at least one id
  size_t reused_tokens = 0;  // ids found, over all lookups
  size_t inserted_pages = 0;
  size_t evicted_pages = 0;
  size_t pages = 0;  // in the tree now
  size_t peak_pages = 0;

  size_t misses() const { return lookups - hits; }
};

struct PrefixHit {
  KvCacheEntry entry;  // its tokens are the prefix that was found; empty for a miss
  size_t length() const { return entry.length(); }
};

class LruKvCacheStore;

// Keeps a prefix from being evicted while it lives. Movable. Void once the prefix was cleared. The store must
// outlive it.
class PrefixPin {
 public:
  PrefixPin() = default;
  PrefixPin(PrefixPin&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)), pin_(std::exchange(other.pin_, 0)) {}
  PrefixPin& operator=(PrefixPin&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(pin_, other.pin_);
    return *this;
  }
  ~PrefixPin();

 private:
  friend class LruKvCacheStore;
  PrefixPin(LruKvCacheStore* store, uint64_t pin) : store_(store), pin_(pin) {}
  LruKvCacheStore* store_ = nullptr;
  uint64_t pin_ = 0;
};

class LruKvCacheStore {
 public:
  // budget_bytes limits charge_bytes(); the memory of the pages themselves is limited by the pool.
  LruKvCacheStore(KvPagePool& pool, size_t budget_bytes);
  explicit LruKvCacheStore(KvPagePool& pool) : LruKvCacheStore(pool, pool.budget_bytes()) {}
  ~LruKvCacheStore();
  LruKvCacheStore(const LruKvCacheStore&) = delete;
  LruKvCacheStore& operator=(const LruKvCacheStore&) = delete;

  // An entry with the longest stored prefix of `ids`, to the token. O(ids), whatever is stored. Logits need
  // at least one id to be fed, so for a prompt ask with all ids but the last.
  PrefixHit find_longest_prefix(std::string_view name_space, TokenSpan ids);

  // Makes the entry's rows findable; call it after every turn. O(new pages): known ones are recognised by
  // their address. Full pages that the store already has for the same ids replace the entry's own, so a
  // prefix that two sessions computed at once is in memory once. Inserting a private prefix as shared makes
  // it so. Errors, all of which insert nothing: kOutOfMemory when the budget is reached and nothing can be
  // evicted, kInvalidArgument when the pages belong to another namespace.
  Status insert(std::string_view name_space, KvCacheEntry& entry, Sharing sharing = Sharing::kPrivate);

  // Pins the path of `ids`. Error: kNotFound unless all of them are stored.
  Result<PrefixPin> pin(std::string_view name_space, TokenSpan ids);

  // Drops up to n_pages pages, as described above, and returns how many.
  size_t evict(size_t n_pages);

  // Forgets all of a namespace, pins included, and zeroes what this freed. Entries keep their own pages.
  // clear_shared() also forgets the private pages that continue shared ones.
  void clear(std::string_view name_space);
  void clear_shared();

  // What the pages in the tree cost: their bytes, and those of the index.
  size_t charge_bytes() const;
  size_t budget_bytes() const { return budget_bytes_; }
  size_t page_charge_bytes() const { return page_charge_bytes_; }

  StoreStats stats() const;
  StoreStats stats(std::string_view name_space) const;
  StoreStats shared_stats() const;
  // Ids compared and nodes looked at since construction.
  PrefixTree::Work work() const;

  // A copy of everything, for validate_store().
  StoreSnapshot snapshot() const;

 private:
  friend class PrefixPin;
  struct Space {
    std::string name;
    StoreStats stats;
  };
  struct Plan;

  SpaceId find_space(std::string_view name) const;
  SpaceId add_space(std::string_view name);
  void count(SpaceId space, size_t StoreStats::*counter, size_t n);
  void count_added(SpaceId space);
  void count_removed(SpaceId space);
  void drop_emptied_spaces();

  Plan plan_insert(SpaceId space, KvCacheEntry& entry, Sharing sharing);
  void plan_first_page(SpaceId space, const KvCacheEntry& entry, Plan& plan);
  Status check_pages(const KvCacheEntry& entry, Plan& plan);
  Status admit(const Plan& plan);
  void share_path(const Plan& plan);
  void add_pages(const Plan& plan, const KvCacheEntry& entry);

  bool reclaim(size_t n_pages);
  void evict_oldest(size_t n_pages);
  void remove_space(SpaceId space);
  void unpin(uint64_t pin);

  KvPagePool& pool_;
  const size_t budget_bytes_;
  const size_t page_charge_bytes_;

  mutable std::mutex mutex_;  // guards what follows
  PrefixTree tree_;
  StoreStats stats_;
  std::map<SpaceId, Space> spaces_;  // kSharedSpace is always there
  std::map<std::string, SpaceId, std::less<>> space_ids_;
  std::vector<SpaceId> emptied_;  // lost their last page in the running call
  SpaceId last_space_ = kSharedSpace;
};

}  // namespace ibid
