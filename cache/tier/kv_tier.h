// KvTier: a cache below the store, in which keys, values and recurrent states outlive their eviction and, in most
// tiers, the process. An engine has at most one. Sessions search the tier after the store, and pass to it what a turn
// has committed.
//
// A tier is a lossy, verified cache. Its interface consists of these laws, tested for all implementations in
// kv_tier_laws_test.cc:
//   - It adds to an entry exactly the bits that it received for the same tokens, namespace and computation. Data that
//     it cannot verify is a miss.
//   - It fails silently: positions that it cannot read are prefilled, records that it cannot write are dropped, and no
//     call of a session fails.
//   - It does not block: write_behind() never waits for storage, and extend() ends at its limits.
//   - Queued writes free their memory when the pool is short of pages.
// Thread-safe. The pool must outlive the tier, and no thread may allocate from the pool while the tier is destroyed.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/tier/kv_record.h"
#include "ibid/token.h"

namespace ibid {

class TierRecords;

// The part of a text that a record holds.
struct RecordRange {
  KvRecordKind kind = KvRecordKind::kPage;
  size_t first_position = 0;  // as in KvRecordHeader
  size_t n_tokens = 0;        // number of tokens of the text up to the end of the record

  size_t n_rows() const { return n_tokens - first_position; }
};

// Limits at which extend() stops even if more could be read. It also stops after kSilenceNs without a whole page.
struct ReadLimits {
  static constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kSilenceNs = 2'000'000'000;

  std::stop_token stop = {};
  int64_t deadline_ns = kNoDeadline;  // time at which to stop, by steady_ns() of the tier's clock
  // If set, the records that were read and used whole are appended; those of which only the first tokens are wanted are
  // not.
  std::vector<RecordRange>* used = nullptr;
};

// Measures one look-up against its limits. Thread-safe. Limits and clock must outlive it.
class ReadTimer {
 public:
  ReadTimer(const ReadLimits& limits, Clock& clock)
      : limits_(limits), clock_(clock), last_page_ns_(clock.steady_ns()) {}

  // Call when a page was read whole.
  void page_came() {
    const int64_t now_ns = clock_.steady_ns();
    was_silent_ = was_silent_ || now_ns - last_page_ns_ > ReadLimits::kSilenceNs;
    last_page_ns_ = now_ns;
  }
  // Time to the end of the look-up, unless a page comes before; 0 or less: the look-up has to end.
  std::chrono::nanoseconds left() const {
    const int64_t now_ns = clock_.steady_ns(), silent_ns = last_page_ns_ + ReadLimits::kSilenceNs - now_ns;
    return std::chrono::nanoseconds(was_silent_ ? 0 : std::min(limits_.deadline_ns - now_ns, silent_ns));
  }
  bool is_over() const { return limits_.stop.stop_requested() || left().count() <= 0; }
  const std::stop_token& stop() const { return limits_.stop; }

 private:
  const ReadLimits& limits_;
  Clock& clock_;
  std::atomic<int64_t> last_page_ns_;
  std::atomic<bool> was_silent_{false};  // a page came too late
};

// Counters since the tier was made; values marked "now" are current.
struct KvTierStats {
  size_t hits = 0;    // calls of extend() that added positions
  size_t misses = 0;  // calls of extend() that added no positions
  size_t tokens_read = 0;
  size_t pages_read = 0;
  size_t pages_written = 0;
  size_t pages = 0;        // pages stored now
  size_t states_read = 0;  // recurrent states that were read, each with the rows after the state
  size_t states_written = 0;
  size_t states = 0;   // recurrent states stored now
  uint64_t bytes = 0;  // bytes of pages and states stored now; the following counters, too, count pages and states
  size_t evicted = 0;
  size_t quarantined = 0;   // records that failed verification and were moved aside
  size_t failures = 0;      // I/O errors of the storage, reading or writing
  uint64_t bytes_read = 0;  // this and the next two are counted only by tiers that nodes share
  uint64_t bytes_written = 0;
  int64_t read_ns = 0;          // time of all calls of extend()
  size_t dropped = 0;           // records that were given up without being written
  size_t waiting = 0;           // records queued now
  uint64_t waiting_bytes = 0;   // bytes of the queued records and of the record that is being written
  std::string disabled_reason;  // why nothing is written at present; empty: writing works
  // Records of other versions of this program, found when the tier was created, with both versions; empty: none found.
  // Such records are not used, and are evicted like others.
  std::string other_versions;
};

class KvTier {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  // Limit for flush() when a program ends: the user waits for the shell prompt meanwhile.
  static constexpr int64_t kEndingNs = 1'000'000'000;

  virtual ~KvTier() = default;
  KvTier(const KvTier&) = delete;
  KvTier& operator=(const KvTier&) = delete;

  // Extends `entry`, which holds a prefix of `ids`, by the stored positions that continue it, in new pages; the last of
  // these positions may be inside a page. In a model with recurrent layers it extends up to the last position that a
  // stored state reaches; in a model with sliding windows it extends while the needed window parts are stored. Returns
  // the number of positions added; on a miss returns 0, and the entry is unchanged. Checks the limits before each page
  // and state, and stops if one is reached. REQUIRES: entry.tokens() is a prefix of ids.
  virtual size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) = 0;
  size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry) {
    return extend(name_space, ids, entry, ReadLimits{});
  }

  // Queues those pages and recurrent states of the entry (kept states and the current one) that are not stored yet.
  // Pages are written before states, earlier pages first. Does not wait for the writes. Drops records that exceed the
  // limit of the queue; the next call for this sequence queues them again. REQUIRES: no pass on the entry is in
  // progress.
  virtual void write_behind(std::string_view name_space, const KvCacheEntry& entry) = 0;

  // Writes the queue on the calling thread. Returns ok if everything queued since the last flush() is stored or was
  // superseded; else the first error. After limit_ns it starts no further record: the others stay queued, and the error
  // kLimitExceeded has their number and size.
  virtual Status flush(int64_t limit_ns) = 0;
  Status flush() { return flush(kNoLimit); }

  // Removes all records of a namespace, of any computation. Error: some records could not be removed.
  virtual Status clear(std::string_view name_space) = 0;

  virtual KvTierStats stats() const = 0;

  // The single records, for an audit; nullptr: the tier cannot be audited.
  virtual TierRecords* records() { return nullptr; }

 protected:
  KvTier() = default;
};

}  // namespace ibid
