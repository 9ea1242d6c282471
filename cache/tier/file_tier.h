// FileTier: the cold tier: pages of keys and values in a directory, below the store in memory. With it even the
// next process need not read again what was read once.
//
// It is a lossy, verified cache: a page is used only after its file was found to hold exactly the wanted ids of the
// wanted namespace, computed in the wanted way, unharmed; any doubt is a miss. Failures never reach a session: what
// cannot be read is computed, and what cannot be written is dropped for a while. It is not a place to keep things:
// whatever is in the directory may be deleted at any time. The tier itself deletes the least recently used when the
// budget is reached.
//
// A thread of the tier writes pages, one at a time, and begins one when nobody else wants a processor. flush() does
// not wait for that thread but writes on its caller's. So a machine that is never idle delays nobody, and no thread
// that could be left without a processor ever holds a lock or a page (base/idle_time.h).
//
// Pages that wait to be written hold memory of the pool. The pool takes it back when somebody needs it
// (KvPagePool::set_let_go), and then they are not written. One tier per pool, one process per directory. Nobody may
// allocate from the pool while the tier is destroyed, and pool, files and clock must outlive it.
//
// Namespaces are told apart by their SHA-256: names may be keys of users, and are not written to disk.
//
// Thread-safe. docs/kv_cache.md has the format and the rules.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file_ops.h"
#include "base/idle_time.h"
#include "base/result.h"
#include "base/types.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/tier/file_tier_index.h"
#include "cache/tier/fingerprint.h"
#include "cache/tier/tier_directory.h"

namespace ibid {

struct FileTierOptions {
  std::string directory;
  Fingerprint fingerprint;
  uint64_t budget_bytes = 0;  // of the files of pages; the bounded quarantine is not counted
  // false: files are not synced. A power loss may then cost any of them, but never makes a wrong one.
  bool durable = true;
  // What may wait to be written; 0: half of the pool's budget.
  size_t waiting_budget_bytes = 0;
  size_t name_bits = 128;  // fewer make names of files collide, for tests
};

// Counted since open(), except for pages and bytes, which are those of now.
struct FileTierStats {
  size_t hits = 0;          // extend() that added something
  size_t misses = 0;        // and that did not
  size_t tokens_read = 0;
  size_t pages_read = 0;
  size_t pages_written = 0;
  size_t pages = 0;         // files now
  uint64_t bytes = 0;       // of files now
  size_t evicted = 0;
  size_t quarantined = 0;   // files that were not what they said
  size_t failures = 0;      // calls to the file system that failed
  size_t dropped = 0;       // pages that were to be written and were not
  size_t waiting = 0;       // pages to be written
  uint64_t waiting_bytes = 0;
  std::string disabled_reason;  // why nothing is written at the moment; empty: all is well
};

class FileTier {
 public:
  static constexpr int64_t kBackOffNs = 30'000'000'000;
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  // What a program takes for flush() when it ends: a person waits for its prompt.
  static constexpr int64_t kEndingNs = 1'000'000'000;

  // Makes the directory or takes it over: removes what a crash left, reads the headers of the files, and evicts what
  // is over the budget. Errors: kIo, kBusy when another process uses the directory, kOutOfMemory; the caller then goes
  // on without a tier; kUnsafePath for a directory that is a symlink, another user's or open to others.
  // idle: nullptr: the system's.
  static Result<std::unique_ptr<FileTier>> open(FileTierOptions options, KvPagePool& pool,
                                                FileOps& files = system_file_ops(), Clock& clock = system_clock(),
                                                std::unique_ptr<IdleTime> idle = nullptr);
  // Pages that still wait are not written: flush() before. The page that is being written is waited for.
  ~FileTier();
  FileTier(const FileTier&) = delete;
  FileTier& operator=(const FileTier&) = delete;

  // Continues `entry`, which holds a beginning of `ids`, by what is on disk, in fresh pages, to the token. Returns the
  // positions added; 0 for a miss, and the entry is then what it was.
  // REQUIRES: entry.tokens() is a prefix of ids.
  size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry);

  // Hands over the pages of the entry that are not on disk yet, and does not wait for them to be written. Pages in
  // front go first. Those that find no room in the queue are dropped, and taken up again by the next call for this
  // sequence.
  // REQUIRES: no pass is under way on the entry.
  void write_behind(std::string_view name_space, const KvCacheEntry& entry);

  // Writes what waits, on the calling thread. Ok: everything handed over since the last flush() is on disk, or was
  // superseded. Error: the first reason why something is not. When limit_ns have passed no further page is begun: the
  // rest waits on, and the error kLimitExceeded says how much that is, as stats() does.
  Status flush(int64_t limit_ns = kNoLimit);

  // Removes all files of a namespace, those of other fingerprints included, and all of the quarantine. kIo: not all.
  Status clear(std::string_view name_space);

  FileTierStats stats() const;

 private:
  struct Waiting {
    KvPageIdentity identity;
    std::string continues;                 // the file of the page before; empty: it is the first
    PageName before, name;
    std::shared_ptr<const Tokens> tokens;  // of the sequence
    size_t n_ids = 0;                      // up to the end of the page
    KvPage page;

    size_t first_position() const { return (n_ids - 1) / kPagePositions * kPagePositions; }
    TokenSpan ids() const { return TokenSpan(*tokens).first(n_ids); }
    TokenSpan page_ids() const { return ids().subspan(first_position()); }
  };
  struct Found {  // a file to read
    std::string file_name;
    size_t n_ids = 0;   // in the file
    size_t n_used = 0;  // of the wanted ids, up to the end of what is used
  };

  FileTier(FileTierOptions options, KvPagePool& pool, std::unique_ptr<TierDirectory> directory, Clock& clock,
           std::unique_ptr<IdleTime> idle);
  Status take_over();

  KvPageIdentity identity_of(std::string_view name_space) const;
  std::vector<Found> find(const KvPageIdentity& identity, TokenSpan ids, size_t length) const;
  size_t read_into(const KvPageIdentity& identity, TokenSpan ids, KvCacheEntry& entry);
  std::vector<KvPage> read_pages(const KvPageIdentity& identity, TokenSpan ids, const std::vector<Found>& found);
  Status read_page(const KvPageIdentity& identity, TokenSpan ids, const Found& found, std::vector<std::byte>& scratch,
                   KvPage& page);
  void give_up_file(const std::string& file_name, const Status& status);
  void hand_over(const KvPageIdentity& identity, const KvCacheEntry& entry);
  bool enqueue(Waiting waiting);
  bool let_go();

  void run();
  bool write_some();
  void copy_page(Waiting& waiting);
  void make_durable();
  void finish_writing();
  Status write_page(const Waiting& waiting);
  Status make_room(const std::string& continues, uint64_t bytes);
  Status remove_file(const std::string& file_name);
  void give_up(Status status) noexcept;
  void count_loss(size_t n_pages, Status why) noexcept;
  int64_t next_use_ns() const;

  const FileTierOptions options_;
  KvPagePool& pool_;
  Clock& clock_;
  const size_t max_waiting_;  // pages
  const std::unique_ptr<TierDirectory> directory_;
  const std::unique_ptr<IdleTime> idle_;

  std::mutex files_mutex_;  // whoever changes files holds it, a page or a call long; taken before mutex_
  std::vector<std::byte> page_copy_;     // what is being written
  std::vector<std::string> superseded_;  // to be removed when the directory is synced

  mutable std::mutex mutex_;  // guards what follows; nobody does I/O under it
  std::condition_variable wake_, copied_;
  FileTierIndex index_;
  std::deque<Waiting> queue_;
  bool stopping_ = false;
  bool copying_ = false;   // somebody reads a page that was taken from the queue
  bool unsynced_ = false;  // names are not on the device yet
  int64_t back_off_until_ns_ = 0;
  Status first_loss_;  // since the last flush()
  FileTierStats stats_;

  std::thread writer_;  // last: it uses all of the above
};

}  // namespace ibid
