// StoreSpaces: the namespaces of LruKvCacheStore, and their statistics.
//
// A namespace and its counters exist while anything is charged to it: names come from requests, so unused ones must not
// accumulate. An inserting call keeps its namespace alive by a Hold. Not thread-safe: called under the store's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"

namespace ibid {

using SpaceId = uint64_t;  // number of a namespace, never reused
inline constexpr SpaceId kSharedSpace = 0;
inline constexpr SpaceId kNoSpace = ~SpaceId{0};

// Counters since the namespace's first insertion (for the store: since construction).
struct StoreStats {
  size_t lookups = 0;
  size_t hits = 0;           // lookups that found at least one token
  size_t repeats = 0;        // lookups that found all tokens and the logits after the last token
  size_t reused_tokens = 0;  // tokens found, over all lookups
  size_t inserted_pages = 0;
  size_t evicted_pages = 0;
  size_t pages = 0;  // pages in the tree now
  size_t peak_pages = 0;
  size_t bytes = 0;  // bytes charged for pages, logits and recurrent states
  size_t peak_bytes = 0;

  size_t misses() const { return lookups - hits; }
};

class StoreSpaces {
 public:
  struct Space {
    std::string name;
    StoreStats stats;
    bool is_held = false;
  };

  // page_charge_bytes: bytes charged for a page in the tree.
  explicit StoreSpaces(size_t page_charge_bytes);

  SpaceId find(std::string_view name) const;  // Returns kNoSpace if the namespace does not exist.
  const StoreStats& total() const { return total_; }
  const Space& at(SpaceId space) const { return spaces_.at(space); }
  const std::map<SpaceId, Space>& all() const { return spaces_; }

  // Adds n to a counter of the store, and of the namespace if it exists.
  void count(SpaceId space, size_t StoreStats::*counter, size_t n);
  // Record that a page, or n bytes of logits or states, were added or removed. REQUIRES: the namespace exists.
  void page_added(SpaceId space);
  void page_removed(SpaceId space);
  void bytes_added(SpaceId space, size_t n);
  void bytes_removed(SpaceId space, size_t n);

  // Creates the namespace of that name if needed, and keeps it while the Hold exists; afterwards the namespace exists
  // only while something is charged to it. May throw std::bad_alloc, nothing changed.
  class Hold {
   public:
    Hold(StoreSpaces& spaces, std::string_view name) : spaces_(spaces), id_(spaces.add(name)) {}
    ~Hold() { spaces_.release(id_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    SpaceId id() const { return id_; }

   private:
    StoreSpaces& spaces_;
    SpaceId id_;
  };

 private:
  SpaceId add(std::string_view name);
  void release(SpaceId space);
  void drop_if_empty(std::map<SpaceId, Space>::iterator found);

  const size_t page_charge_bytes_;
  StoreStats total_;
  std::map<SpaceId, Space> spaces_;  // always contains kSharedSpace
  std::map<std::string, SpaceId, std::less<>> ids_;
  SpaceId last_ = kSharedSpace;
};

}  // namespace ibid
