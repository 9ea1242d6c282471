// StoreObserver: receives the changes of the full pages that a LruKvCacheStore can find, so that an index outside of
// the store can predict where a prefix is cached. Partial pages, recurrent states and window parts are not reported.
//
// The store calls it under its lock, on the thread that changes the store. So no call may wait, or call the store.
#pragma once

#include <cstdint>
#include <string_view>

#include "ibid/token.h"

namespace ibid {

// A full page of a store. The views are valid during the call.
struct StoredPage {
  uint64_t serial = 0;  // number of the page in its store, never reused
  uint64_t before = 0;  // serial of the previous page of the sequence; 0: this page is the first
  std::string_view name_space;
  bool is_shared = false;  // every namespace finds the page
  TokenSpan tokens;
};

class StoreObserver {
 public:
  virtual ~StoreObserver() = default;

  virtual void page_stored(const StoredPage& page) noexcept = 0;
  virtual void page_removed(uint64_t serial) noexcept = 0;
  // Pages changed their namespace, so that the reports so far are wrong: call LruKvCacheStore::observe() again, later.
  virtual void pages_outdated() noexcept = 0;

  // LruKvCacheStore::observe() calls list_begins(), page_stored() for all pages, each after the page before it, and
  // list_ends(). The list replaces all earlier reports.
  virtual void list_begins() noexcept = 0;
  virtual void list_ends() noexcept = 0;

  // The store is being destroyed. The only call without the store's lock, and the last one.
  virtual void store_ends() noexcept = 0;
};

}  // namespace ibid
