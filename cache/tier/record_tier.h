// RecordTier: a KvTier whose records are in a RecordStore, which other nodes read and write as well.
//
// A page is found by its name, without any list of records: the names of a prompt's pages are asked for in one call,
// and the records are used in order. Pages of which a prompt has only the first tokens, and recurrent states, are found
// by the tails of the text before them (RecordTail).
//
// Whether a page is stored is answered from memory (KnownNames): a turn never waits for the store, except in extend(),
// up to its limits. A record that is not sound is removed and counted.
//
// Thread-safe. Lock order: as in WriteBehind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/idle_time.h"
#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/tier/known_names.h"
#include "cache/tier/kv_tier.h"
#include "cache/tier/later_fingerprint.h"
#include "cache/tier/page_name.h"
#include "cache/tier/record_store.h"
#include "cache/tier/shared_records.h"
#include "cache/tier/store_epochs.h"
#include "cache/tier/write_behind.h"
#include "ibid/token.h"

namespace ibid {

struct RecordTierOptions {
  LaterFingerprint fingerprint;
  KvWriterId writer{};              // written into each record
  size_t waiting_budget_bytes = 0;  // limit of the queued writes; 0: half of the pool's budget
  uint64_t eager_bytes_per_s = 0;   // as in WriteBehindOptions
};

// Size of the largest record of this layout.
size_t most_record_bytes(const KvLayout& layout);

class RecordTier : public KvTier, private PageSink {
 public:
  // idle: null for the system's implementation. The pool and the clock must outlive the tier. Throws std::bad_alloc,
  // and std::system_error if no thread can be started.
  RecordTier(RecordTierOptions options, std::shared_ptr<RecordStore> store, KvPagePool& pool, Clock& clock,
             std::unique_ptr<IdleTime> idle = nullptr);

  // After a failed write nothing is written for this time: a server that failed may soon be reachable again.
  static constexpr int64_t kBackOffNs = 2'000'000'000;

  using KvTier::extend;
  using KvTier::flush;
  size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) override;
  void write_behind(std::string_view name_space, const KvCacheEntry& entry) override;
  Status flush(int64_t limit_ns) override { return writing_.flush(limit_ns); }
  // Draws a new epoch. After an error the store may still have the old one; this process does not use its records.
  Status clear(std::string_view name_space) override;
  KvTierStats stats() const override;
  TierRecords* records() override { return &records_; }

 private:
  friend class SharedRecords;
  // Data of one call of extend(), which reads what continues the first `length` tokens.
  struct Reading {
    const KvPageIdentity identity;
    const TokenSpan ids;
    const size_t length;
    ReadTimer& timer;
    std::vector<TextName> texts;             // the texts before each page of `ids`, the first page included
    std::vector<KvPage> pages;               // from the page with position `length` on
    size_t end;                              // number of tokens up to the end of the pages
    Status status = {};                      // why the last record was not used
    KvPageParts parts = KvPageParts::kBoth;  // of the last page
    std::vector<RecordRange> used = {};      // records that were read whole

    PageName key(const PageName& name) const { return name_in_epoch(name, identity.epoch); }
  };
  // A state that may continue the text.
  struct Candidate {
    RecordTail tail;
    const TextName* before = nullptr;
    size_t position = 0, reach = 0;
  };

  // is_audit: the read is not counted.
  Result<size_t> read_into(const Sha256Digest& name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits,
                           bool is_audit = false);
  // Returns the epoch of a namespace. If another node has begun it, forgets all names.
  Result<uint64_t> epoch_of(Result<StoreEpochs::Current> current);
  Status read_pages(Reading& reading);
  Status read_page_in_part(Reading& reading);
  bool add_page(Reading& reading, const TextName& before, TokenSpan page_ids, std::span<const std::byte> record);
  Status decode_page(Reading& reading, const TextName& before, TokenSpan page_ids, std::span<const std::byte> record);
  Result<std::vector<RecordTail>> tails(Reading& reading, const TextName& before);
  Result<std::vector<Candidate>> find_states(Reading& reading);
  Result<std::optional<StateSnapshot>> read_state(Reading& reading);
  Result<StateSnapshot> decode_state(const Reading& reading, const Candidate& found,
                                     std::span<const std::byte> record) const;
  // If the content of the last record, which has this name, was the cause of reading.status, removes the record and
  // counts it.
  void quarantine(Reading& reading, const PageName& name);

  std::unique_lock<std::mutex> take_pen() override { return std::unique_lock(pen_); }
  bool has(const RecordPlace& place, KvPageParts parts) const override { return known_.has(place.name, parts); }
  bool has_state(const RecordPlace& place, size_t) const override { return known_states_.has(place.name); }
  void touch(const PageName&, TokenSpan) override {}
  Status write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts parts) override;
  Status write(const WaitingState& state, std::span<const std::byte> bytes) override;
  Status settle() override { return {}; }
  void forget_all() {
    known_.clear();
    known_states_.clear();
  }
  template <typename Waiting>
  Status put(const Waiting& waiting, RecordStore::Pieces pieces, uint64_t epoch, bool replaces, const RecordTail& tail);

  const LaterFingerprint fingerprint_;
  const KvWriterId writer_;
  const std::shared_ptr<RecordStore> store_;
  KvPagePool& pool_;
  Clock& clock_;
  KnownNames known_, known_states_;  // pages, and states
  std::mutex pen_;
  // Guarded by the pen: wrong records that were removed. This process does not write them again, because a turn that
  // has read one may be in progress.
  std::set<PageName> wrong_;
  StoreEpochs epochs_;
  SharedRecords records_{*this};
  std::atomic<size_t> n_hits_{0}, n_misses_{0}, n_tokens_read_{0}, n_pages_read_{0}, n_states_read_{0};
  std::atomic<size_t> n_pages_written_{0}, n_states_written_{0}, n_quarantined_{0}, n_failures_{0};
  std::atomic<uint64_t> bytes_read_{0}, bytes_written_{0};
  std::atomic<int64_t> read_ns_{0};
  WriteBehind writing_;  // last, because its thread uses the other members
};

}  // namespace ibid
