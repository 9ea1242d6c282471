// StoreSpaces: the namespaces of LruKvCacheStore and what is counted in each of them.
//
// A namespace and its counters live from its first page to the last of its bytes, because names come from requests and
// must not pile up. A call that is about to fill a namespace holds it meanwhile. Not thread-safe: the store locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"

namespace ibid {

using SpaceId = uint64_t;  // a namespace's number, never given twice
inline constexpr SpaceId kSharedSpace = 0;
inline constexpr SpaceId kNoSpace = ~SpaceId{0};

// Counted since the namespace's first insertion (the store: since construction).
struct StoreStats {
  size_t lookups = 0;
  size_t hits = 0;           // lookups that found at least one id
  size_t repeats = 0;        // lookups that found every id, and the logits behind the last
  size_t reused_tokens = 0;  // ids found, over all lookups
  size_t inserted_pages = 0;
  size_t evicted_pages = 0;
  size_t pages = 0;  // in the tree now
  size_t peak_pages = 0;
  size_t bytes = 0;  // what these pages, the logits behind them and recurrent states are charged
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

  // A page in the tree is charged page_charge_bytes.
  explicit StoreSpaces(size_t page_charge_bytes);

  SpaceId find(std::string_view name) const;  // kNoSpace: not there
  const StoreStats& total() const { return total_; }
  const Space& at(SpaceId space) const { return spaces_.at(space); }
  const std::map<SpaceId, Space>& all() const { return spaces_; }

  // Adds n to a counter of the namespace, where it is there, and of the store.
  void count(SpaceId space, size_t StoreStats::*counter, size_t n);
  // A page, or n bytes of logits or states, came into the store or left it. REQUIRES: the namespace is there.
  void page_added(SpaceId space);
  void page_removed(SpaceId space);
  void bytes_added(SpaceId space, size_t n);
  void bytes_removed(SpaceId space, size_t n);

  // The namespace of that name, made if it is not there, for as long as the hold lives; afterwards only if it
  // has pages. May throw std::bad_alloc, and has changed nothing then.
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
  std::map<SpaceId, Space> spaces_;  // kSharedSpace is always there
  std::map<std::string, SpaceId, std::less<>> ids_;
  SpaceId last_ = kSharedSpace;
};

}  // namespace ibid
