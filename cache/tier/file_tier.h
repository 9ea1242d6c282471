// FileTier: a KvTier in a directory, with one file for each page or recurrent state, for later processes.
//
// A page or state is used only after its file was verified to hold exactly the wanted tokens, namespace and
// computation. A state is usable only together with the pages before it. The directory is a cache: any file may be
// deleted at any time, and the tier deletes the least recently used ones when the budget is reached.
//
// Parts: PageFiles manages the files and their index; WriteBehind manages the queue of records and the thread that
// writes them; SecondReader manages a second thread for long reads. FileTier reads, and connects the parts.
//
// One tier per pool, one process per directory. `files` and `clock` must outlive the tier. Namespaces are stored as
// SHA-256 only, because their names may be user keys.
//
// Thread-safe, without a lock of its own. docs/kv_cache.md describes the format and the rules.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file_ops.h"
#include "base/idle_time.h"
#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/tier/kv_record.h"
#include "cache/tier/kv_tier.h"
#include "cache/tier/later_fingerprint.h"
#include "cache/tier/page_files.h"
#include "cache/tier/page_name.h"
#include "cache/tier/tier_records.h"
#include "cache/tier/write_behind.h"
#include "ibid/token.h"

namespace ibid {

// A thread that helps to read many pages, because one reader fully uses neither the disk nor the memory. The thread is
// started once and sleeps between calls. Thread-safe. Helps one caller at a time; other callers read alone.
class SecondReader {
 public:
  // Throws std::system_error if no thread can be started, and std::bad_alloc.
  SecondReader();
  SecondReader(const SecondReader&) = delete;
  SecondReader& operator=(const SecondReader&) = delete;

  // Calls `read` on the calling thread. If the second thread is free and wakes in time, it calls `read` concurrently.
  // Returns after both calls.
  // REQUIRES: read() throws nothing, and concurrent calls share the work.
  void share(const std::function<void()>& read);

 private:
  void run(const std::stop_token& stop);

  // kFree -> kOffered (by a caller) -> kReading (by the thread) -> kDone -> kFree (by the same caller). A caller that
  // has finished before the thread wakes withdraws the offer.
  enum class State { kFree, kOffered, kReading, kDone };

  std::mutex mutex_;  // guards the members below
  std::condition_variable_any offered_;
  std::condition_variable done_;
  State state_ = State::kFree;
  const std::function<void()>* read_ = nullptr;  // read() of the caller whom the thread helps

  std::jthread thread_;  // last member, because the thread uses all other members
};

struct FileTierOptions {
  std::string directory;
  LaterFingerprint fingerprint;
  KvWriterId writer{};        // written into each record
  uint64_t budget_bytes = 0;  // limit for the record files; quarantined files, at most a few, are not counted
  // false: files are not synced. A power loss may then lose files, but never corrupts what is read.
  bool durable = true;
  // Maximum bytes of the queued writes; 0: half of the pool's budget.
  size_t waiting_budget_bytes = 0;
  uint64_t eager_bytes_per_s = 0;  // as in WriteBehindOptions
};

class FileTier : public KvTier, private TierRecords {
 public:
  // Creates the directory or opens an existing one. Errors, after which the caller runs without a tier: kIo, also if no
  // thread can be started; kBusy if another process uses the directory; kOutOfMemory; kUnsafePath if the directory is a
  // symlink, belongs to another user or is accessible to others. idle: null for the system's implementation.
  static Result<std::unique_ptr<FileTier>> open(FileTierOptions options, KvPagePool& pool,
                                                FileOps& files = system_file_ops(), Clock& clock = system_clock(),
                                                std::unique_ptr<IdleTime> idle = nullptr,
                                                PageNameRule name_rule = first_half);

  // Drops queued records: call flush() before. Waits for the page that is being written.
  ~FileTier() override = default;

  using KvTier::extend;
  using KvTier::flush;
  size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) override;
  void write_behind(std::string_view name_space, const KvCacheEntry& entry) override;
  Status flush(int64_t limit_ns) override;
  // Removes the quarantined files too.
  Status clear(std::string_view name_space) override;
  KvTierStats stats() const override;
  TierRecords* records() override { return this; }

 private:
  // Data of one call of extend(), which reads the pages that continue the first `length` tokens.
  struct Reading {
    const KvPageIdentity identity;
    const TokenSpan ids;
    ReadTimer& timer;
    const size_t length;
    std::vector<PageFiles::Found> found;
    std::vector<PageFiles::FoundState> states;  // found states, in order of their ends, the last end first
    std::vector<KvPage> pages = std::vector<KvPage>(found.size());
    std::vector<Status> statuses = std::vector<Status>(found.size());
    std::atomic<size_t> next{0};  // first page that no thread has begun to read

    // Number of tokens up to the end of the first n pages.
    size_t end(size_t n) const { return n == 0 ? length : found[n - 1].n_used; }
    void cut(size_t n_tokens);  // drops the pages after the first n_tokens tokens
    // True if page i is before the sliding window of a sequence that resumes at the end of all found pages.
    bool is_behind(const KvLayout& layout, size_t i) const {
      return length / kPagePositions + i < layout.first_window_page(end(found.size()));
    }
  };

  FileTier(LaterFingerprint fingerprint, KvPagePool& pool, Clock& clock, std::unique_ptr<PageFiles> files)
      : fingerprint_(std::move(fingerprint)), pool_(pool), clock_(clock), files_(std::move(files)) {}

  // used: as in ReadLimits. is_audit: the read is no use of the files.
  size_t read_into(const KvPageIdentity& identity, TokenSpan ids, KvCacheEntry& entry, ReadTimer& timer,
                   std::vector<RecordRange>* used, bool is_audit = false);
  const PageFiles::FoundState* read_deepest_state(Reading& reading, std::vector<StateSnapshot>& states);
  void read_all(Reading& reading);
  void read_some(Reading& reading) noexcept;
  Status read_page(Reading& reading, size_t i, std::vector<std::byte>& scratch);

  Result<KvPage> read_page(const TierRecord& record) override;
  Result<StateSnapshot> read_state(const TierRecord& record) override;
  size_t extend(const Sha256Digest& name_space, TokenSpan ids, KvCacheEntry& entry,
                std::vector<RecordRange>& used) override;
  Result<Removed> remove_wrong(const TierRecord& record) override;
  Result<RecordList> list() override;

  const LaterFingerprint fingerprint_;
  KvPagePool& pool_;
  Clock& clock_;
  const std::unique_ptr<PageFiles> files_;
  SecondReader second_reader_;
  std::atomic<size_t> n_hits_{0}, n_misses_{0}, n_tokens_read_{0}, n_pages_read_{0}, n_states_read_{0};
  std::unique_ptr<WriteBehind> writing_;  // last member, because its thread uses the files
};

}  // namespace ibid
