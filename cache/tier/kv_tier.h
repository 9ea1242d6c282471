// KvTier: a place below the store where keys and values, and recurrent states, outlive their eviction, and with most
// tiers the process. An
// engine has one or none; sessions ask it after the store, and hand over to it what a turn has settled.
//
// A tier is a lossy, verified cache, and these laws are its interface (kv_tier_laws_test.cc holds every
// implementation to them):
//   - What it adds to an entry is, bit for bit, what was handed over for the same ids of the same namespace and the
//     same computation. Whatever it is not sure of is a miss.
//   - It fails silently: what it cannot read is computed, what it cannot write is dropped, and no call of a session
//     fails for it.
//   - It keeps nobody waiting: write_behind() never waits for where the pages go, and extend() ends at its limits.
//   - What waits to be written gives its memory back when the pool is short of pages.
//
// Thread-safe. The pool must outlive it, and nobody may allocate from the pool while it is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "ibid/token.h"

namespace ibid {

// When reading ends, though more could be read.
struct ReadLimits {
  static constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

  std::stop_token stop = {};
  int64_t deadline_ns = kNoDeadline;  // of the tier's clock, steady_ns()

  bool reached(Clock& clock) const {
    return stop.stop_requested() || (deadline_ns != kNoDeadline && clock.steady_ns() >= deadline_ns);
  }
};

// Counted since the tier was made, but for what is "now".
struct KvTierStats {
  size_t hits = 0;          // extend() that added something
  size_t misses = 0;        // and that did not
  size_t tokens_read = 0;
  size_t pages_read = 0;
  size_t pages_written = 0;
  size_t pages = 0;         // stored now
  size_t states_read = 0;   // recurrent ones, with the rows behind them
  size_t states_written = 0;
  size_t states = 0;        // stored now
  uint64_t bytes = 0;       // stored now, of pages and states; and so is all that follows
  size_t evicted = 0;
  size_t quarantined = 0;   // that were not what they said, and were put away
  size_t failures = 0;      // of where they are, to read or to write
  size_t dropped = 0;       // that were to be written and were not
  size_t waiting = 0;       // to be written now
  uint64_t waiting_bytes = 0;
  std::string disabled_reason;  // why nothing is written now; empty: all is well
  // The records that were there when the tier was made and that other versions of this program wrote, with both
  // versions; empty: none. They are not used, and are evicted in their turn.
  std::string other_versions;
};

class KvTier {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  // What a program takes for flush() when it ends: a person waits for its prompt.
  static constexpr int64_t kEndingNs = 1'000'000'000;

  virtual ~KvTier() = default;
  KvTier(const KvTier&) = delete;
  KvTier& operator=(const KvTier&) = delete;

  // Continues `entry`, which holds a beginning of `ids`, by what is stored, in fresh pages, to the token. Of a model
  // with recurrent layers it becomes as long as the deepest state that is stored too, and of one with windows as long
  // as these are whole. Returns the positions added; 0 for a miss, and the entry is then what it was. The limits are
  // looked at before each page and state: what was read whole by then is added. REQUIRES: entry.tokens() is a prefix of
  // ids.
  virtual size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) = 0;
  size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry) {
    return extend(name_space, ids, entry, ReadLimits{});
  }

  // Hands over the pages of the entry that are not stored yet, and then the states that it kept and the one that it has
  // now. Does not wait for them to be written. Pages in front go first. What there is no room for is dropped, and taken
  // up again by the next call for this sequence.
  // REQUIRES: no pass is under way on the entry.
  virtual void write_behind(std::string_view name_space, const KvCacheEntry& entry) = 0;

  // Writes what waits, on the calling thread. Ok: everything handed over since the last flush() is stored, or was
  // superseded. Error: the first reason why something is not. When limit_ns have passed no further page is begun: the
  // rest waits on, and the error kLimitExceeded says how much that is, as stats() does.
  virtual Status flush(int64_t limit_ns) = 0;
  Status flush() { return flush(kNoLimit); }

  // Removes everything of a namespace, whatever computed it. Error: not all could be removed.
  virtual Status clear(std::string_view name_space) = 0;

  virtual KvTierStats stats() const = 0;

 protected:
  KvTier() = default;
};

}  // namespace ibid
