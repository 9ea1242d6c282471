// FileTier: a KvTier in a directory, one file a page or recurrent state. With it even the next process need not read
// again what was read once.
//
// A page or a state is used only after its file was found to hold exactly the wanted ids of the wanted namespace,
// computed in the wanted way, unharmed. A state is of use only where the pages in front of it are there. It is not a
// place to keep things: whatever is in the directory may be deleted at any time. The tier itself deletes the least
// recently used when the budget is reached.
//
// It is made of parts: PageFiles has the files and their index, WriteBehind the queue of pages that wait and the thread
// that writes them, SecondReader a second thread for long reads. What is here is reading, and the wiring.
//
// One tier per pool, one process per directory. Files and clock must outlive it. Namespaces are told apart by their
// SHA-256: names may be keys of users, and are not written to disk.
//
// Thread-safe, without a lock of its own. docs/kv_cache.md has the format and the rules.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file_ops.h"
#include "base/idle_time.h"
#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/tier/fingerprint.h"
#include "cache/tier/kv_tier.h"
#include "cache/tier/page_files.h"
#include "cache/tier/page_name.h"
#include "cache/tier/second_reader.h"
#include "cache/tier/write_behind.h"
#include "ibid/token.h"

namespace ibid {

struct FileTierOptions {
  std::string directory;
  Fingerprint fingerprint;
  uint64_t budget_bytes = 0;  // of the files of pages; the bounded quarantine is not counted
  // false: files are not synced. A power loss may then cost any of them, but never makes a wrong one.
  bool durable = true;
  // What may wait to be written; 0: half of the pool's budget.
  size_t waiting_budget_bytes = 0;
};

class FileTier : public KvTier {
 public:
  // Makes the directory or takes it over. Errors: kIo, also when no thread can be made; kBusy when another process uses
  // the directory; kOutOfMemory; the caller then goes on without a tier; kUnsafePath for a directory that is a symlink,
  // another user's or open to others.
  // idle: nullptr: the system's.
  static Result<std::unique_ptr<FileTier>> open(FileTierOptions options, KvPagePool& pool,
                                                FileOps& files = system_file_ops(), Clock& clock = system_clock(),
                                                std::unique_ptr<IdleTime> idle = nullptr,
                                                PageNameRule name_rule = first_half);

  // Pages that still wait are not written: flush() before. The page that is being written is waited for.
  ~FileTier() override = default;

  using KvTier::extend;
  using KvTier::flush;
  size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) override;
  void write_behind(std::string_view name_space, const KvCacheEntry& entry) override;
  Status flush(int64_t limit_ns) override;
  // Removes all of the quarantine as well.
  Status clear(std::string_view name_space) override;
  KvTierStats stats() const override;

 private:
  // What a call of extend() reads, from the first `length` of the ids on.
  struct Reading {
    const KvPageIdentity identity;
    const TokenSpan ids;
    const ReadLimits& limits;
    const size_t length;
    std::vector<PageFiles::Found> found;
    std::vector<PageFiles::FoundState> states;  // the deepest first
    std::vector<KvPage> pages = std::vector<KvPage>(found.size());
    std::vector<Status> statuses = std::vector<Status>(found.size());
    std::atomic<size_t> next{0};  // the first page that nobody has begun

    // Up to where the first n pages reach.
    size_t end(size_t n) const { return n == 0 ? length : found[n - 1].n_used; }
    void cut(size_t n_ids);  // what follows the first n_ids is not needed
    // Whether whoever goes on at the end has page i behind its window.
    bool is_behind(const KvLayout& layout, size_t i) const {
      return length / kPagePositions + i < layout.first_window_page(end(found.size()));
    }
  };

  FileTier(const Fingerprint& fingerprint, KvPagePool& pool, Clock& clock, std::unique_ptr<PageFiles> files)
      : fingerprint_(fingerprint), pool_(pool), clock_(clock), files_(std::move(files)) {}

  KvPageIdentity identity_of(std::string_view name_space) const;
  size_t read_into(const KvPageIdentity& identity, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits);
  bool read_deepest_state(Reading& reading, std::vector<StateSnapshot>& states, std::string& file_name);
  void read_all(Reading& reading);
  void read_some(Reading& reading) noexcept;
  Status read_page(Reading& reading, size_t i, std::vector<std::byte>& scratch);

  const Fingerprint fingerprint_;
  KvPagePool& pool_;
  Clock& clock_;
  const std::unique_ptr<PageFiles> files_;
  SecondReader second_reader_;
  std::atomic<size_t> n_hits_{0}, n_misses_{0}, n_tokens_read_{0}, n_pages_read_{0}, n_states_read_{0};
  std::unique_ptr<WriteBehind> writing_;  // last: its thread uses the files
};

}  // namespace ibid
