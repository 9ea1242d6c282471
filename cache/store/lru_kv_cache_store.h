// LruKvCacheStore: finds by its ids whatever any sequence has read, live ones included.
//
// A prefix tree over the pages of all inserted entries (cache/store/prefix_tree.h). A lookup compares ids, there is
// no hash, and returns an entry that shares pages: whole ones for good, at most one partial page until that
// entry's first reserve() copies its rows. The store holds references, not copies; what a session holds
// itself costs nothing extra and is never evicted.
//
// Eviction takes the least recently used pages first. Pages that were used again and declared prefixes go later
// (cache/store/eviction_queue.h), and what a sequence at rest stands on goes last (KvAtRest). The tail pages of a
// sequence go before its head. A page that is pinned, or that an entry holds, is never taken, since that would free
// nothing. The store is a reclaimer of the pool, so pages wanted by a session push out what was not used for the
// longest time.
//
// Where a model has recurrent layers, the store also knows their states (cache/store/state_index.h): those that an
// entry kept, and the one behind its last position. A lookup then finds the longest prefix to go on from.
//
// Namespaces isolate users: a namespace never finds what another one inserted, unless that was inserted as shared.
// An entry belongs to one namespace for life: the one it was found in or is inserted into first.
//
// All or nothing: a call that finds no heap memory fails as kOutOfMemory, or finds nothing, and leaves store and
// entries as they were. Thread-safe, one mutex; pages are zeroed outside of it. It never asks the pool for pages,
// so it cannot dead-lock with it. The pool must outlive it, and nobody may allocate from the pool while the store
// is destroyed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/store/prefix_tree.h"
#include "cache/store/state_index.h"
#include "cache/store/store_handles.h"
#include "cache/store/store_insertion.h"
#include "cache/store/store_room.h"
#include "cache/store/store_snapshot.h"
#include "cache/store/store_spaces.h"

namespace ibid {

struct PrefixHit {
  KvCacheEntry entry;  // its tokens are the prefix that was found; empty for a miss
  LogitsRow logits;    // behind the last of the ids asked for, if all were found and these logits remembered
  size_t length() const { return entry.length(); }
};

class LruKvCacheStore {
 public:
  // budget_bytes limits charge_bytes(); the memory of the pages themselves is limited by the pool.
  LruKvCacheStore(KvPagePool& pool, size_t budget_bytes, Eviction eviction = Eviction::kReuse);
  // With room for every page of the pool, and for logits beside them: whatever was computed can be inserted.
  explicit LruKvCacheStore(KvPagePool& pool);
  ~LruKvCacheStore();
  LruKvCacheStore(const LruKvCacheStore&) = delete;
  LruKvCacheStore& operator=(const LruKvCacheStore&) = delete;

  // An entry with the longest stored prefix of `ids`, to the token. O(ids), whatever is stored. Logits that are
  // not in the hit need at least one id to be fed: slice the entry to all ids but the last then.
  PrefixHit find_longest_prefix(std::string_view name_space, TokenSpan ids);

  // Makes the entry's rows findable; call it after every turn. O(new pages): known ones are recognised by
  // their address. Full pages that the store already has for the same ids replace the entry's own, so a
  // prefix that two sessions computed at once is in memory once. Inserting a private prefix as shared, or an
  // ordinary one as a declared prefix, makes it so. Errors, all of which insert nothing and leave the entry:
  // kOutOfMemory when the budget is reached and nothing can be evicted, kInvalidArgument when the pages belong
  // to another namespace, kMismatch when they belong to another pool, as those of another model do.
  Status insert(std::string_view name_space, KvCacheEntry& entry, const InsertOptions& options = {});
  Status insert(std::string_view name_space, KvCacheEntry& entry, Sharing sharing) {
    return insert(name_space, entry, InsertOptions{.sharing = sharing});
  }

  // Ends the work on a sequence: gives its pages back and leaves its ids in `rest`. O(pages) references. False, and
  // nothing has changed, when the rows are not all marked: they would be lost.
  // REQUIRES: the entry was inserted with `rest`, or is what wake() made of it; it may have been cut since.
  bool put_to_rest(KvCacheEntry& entry, KvAtRest& rest);
  // Makes an empty entry of what is still there, for computing on. O(pages) references, no id is compared or copied.
  // Error: kOutOfMemory (the heap), and nothing has changed.
  Status wake(KvAtRest& rest, KvCacheEntry& entry);
  // The same for a look at it, with a copy of the ids; `rest` stays as it is.
  Result<KvCacheEntry> look_at(const KvAtRest& rest);
  // The same sequence for a second owner. May throw std::bad_alloc.
  KvAtRest copy(const KvAtRest& rest);

  // Remembers the logits of the row behind the last of `ids`, so that an exact repeat needs no forward pass. They
  // are visible where the page of that last id is, and go with it; at most kMaxEndings a page, and 1/16 of the
  // budget in all, the least recently used give way. What is remembered already stays. Errors: kNotFound
  // unless all of the ids are stored, kOutOfMemory without room, kInvalidArgument for no logits.
  Status remember_logits(std::string_view name_space, TokenSpan ids, std::span<const float> logits);

  // Pins the path of `ids`. Errors: kNotFound unless all of them are stored, kOutOfMemory.
  Result<PrefixPin> pin(std::string_view name_space, TokenSpan ids);

  // Drops up to n_pages pages, as described above, and returns how many.
  size_t evict(size_t n_pages);

  // Forgets all of a namespace, pins included; what this frees is zero on return. Entries keep their own pages.
  // clear_shared() also forgets the private pages that continue shared ones.
  void clear(std::string_view name_space);
  void clear_shared();

  // Recurrent states that can be found, and what they are charged: at most half of what the pool has.
  size_t n_states() const;
  size_t state_bytes() const;

  // The cost of the pages in the tree: their bytes, those of the index and of remembered logits.
  size_t charge_bytes() const;
  size_t budget_bytes() const { return room_.budget_bytes(); }
  size_t page_charge_bytes() const { return room_.page_charge_bytes(); }

  // All namespaces together, misses of unknown ones included; one of them (zeros: it has no pages).
  StoreStats stats() const;
  StoreStats stats(std::string_view name_space) const;
  StoreStats shared_stats() const;
  // Ids compared and nodes looked at since construction.
  PrefixTree::Work work() const;

  // A copy of everything, to be looked at in peace. May throw std::bad_alloc.
  StoreSnapshot snapshot() const;

 private:
  friend class PrefixPin;
  friend class KvAtRest;
  // The pages that a call removes. Declare it before the call's lock, so that it is destroyed after the lock is
  // free: zeroing a page takes as long as many lookups.
  class Removed {
   public:
    explicit Removed(LruKvCacheStore& store) : nodes(store.n_freeing_), store_(store) {}
    ~Removed();
    RemovedNodes nodes;
    StateIndex::Removed states;

   private:
    LruKvCacheStore& store_;
  };

  struct AtRest {
    size_t length = 0;
    std::vector<KvPage> pages;
    std::vector<StateSnapshot> states;
  };
  AtRest at_rest(const KvAtRest& rest, bool uses);

  SpaceId readable_space(std::string_view name) const;
  Status insert_or_throw(std::string_view name_space, KvCacheEntry& entry, const InsertOptions& options);
  Status remember(std::string_view name_space, TokenSpan ids, std::unique_ptr<PrefixEnding> ending);
  void remove_states(SpaceId space, Removed& removed);
  bool reclaim(size_t bytes);
  bool reclaim_pages(size_t bytes, Removed& removed);
  void unpin(uint64_t pin);
  static std::vector<KvPage> pages_of(const PrefixNode& last, size_t length);
  void unmark(PrefixMark& mark);

  KvPagePool& pool_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable pages_freed_;
  size_t n_freeing_ = 0;  // pages that left the store and are not back in the pool yet
  uint64_t n_freed_ = 0;  // calls that gave such pages back
  StoreSpaces spaces_;
  PrefixTree tree_;
  StateIndex states_;
  StoreRoom room_;

  KvPagePool::Registration reclaimer_;  // last: the pool asks no more before anything else goes
};

}  // namespace ibid
