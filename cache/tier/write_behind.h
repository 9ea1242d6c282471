// WriteBehind: writes pages and states to the storage of a tier (PageSink) in the background. Has the queue
// (WriteQueue), a thread that writes when a processor is idle, and the handling of write errors.
//
// The thread writes one record at a time, and starts one only while a processor is idle. A storage that other nodes
// read should not wait for that: the busy node is the one whose pages they need. With a rate (eager_bytes_per_s) the
// thread also writes whole pages at that rate while no processor is idle. flush() does not wait for the thread, but
// writes on the calling thread. So no caller waits until the machine is idle, and the thread holds neither a lock nor a
// page while it waits for an idle processor (base/idle_time.h).
//
// Queued records hold memory of the pool. WriteBehind is a reclaimer of the pool: when memory is short it drops queued
// records. A record is copied before it is written, so no page is held during I/O. If the window part of a page was
// evicted, the first part is written; once another sequence has computed the window part again, both parts are written.
//
// After an I/O error of the sink (kIo) the queue is dropped, and nothing is written for
// WriteBehindOptions::back_off_ns.
//
// Thread-safe. Lock order: the sink's pen (PageSink::take_pen()), then mutex_; has() is called with neither locked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/idle_time.h"
#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/pages/sequence_state.h"
#include "cache/tier/kv_page_file.h"
#include "cache/tier/kv_tier.h"
#include "cache/tier/page_name.h"
#include "ibid/token.h"

namespace ibid {

// A page to write, with its identity.
struct WaitingPage {
  KvPageIdentity identity;
  PageName before_that;                  // name of the text before the previous page
  TextName before;                       // of the text before this page
  PageName name;                         // of the text with this page
  std::shared_ptr<const Tokens> tokens;  // tokens of the sequence
  size_t n_tokens = 0;                   // number of tokens up to the end of the page
  KvPage page;                           // empty once the page is copied

  size_t first_position() const { return (n_tokens - 1) / kPagePositions * kPagePositions; }
  size_t n_rows() const { return n_tokens - first_position(); }
  TokenSpan ids() const { return TokenSpan(*tokens).first(n_tokens); }
  TokenSpan page_ids() const { return ids().subspan(first_position()); }
  KvRecordInfo info(const KvWriterId& writer) const { return {identity, before.followed_by(page_ids()), writer}; }
};

// A recurrent state to write, with the rows after it. Its position is in the page after `before`.
struct WaitingState {
  KvPageIdentity identity;
  PageName before_that;
  TextName before;
  PageName name;
  std::shared_ptr<const Tokens> tokens;  // tokens of the sequence
  StateSnapshot snapshot;                // `snapshot.state` is empty once the state is copied

  size_t n_front() const { return snapshot.position % kPagePositions; }
  size_t page_begin() const { return snapshot.position - n_front(); }
  TokenSpan ids() const { return TokenSpan(*tokens).first(snapshot.end()); }
  TokenSpan page_ids() const { return ids().subspan(page_begin()); }
  KvRecordInfo info(const KvWriterId& writer) const { return {identity, before.followed_by(page_ids()), writer}; }
};

// Queue of records to write, pages in order and then states. Holds references to their memory, up to a limit in bytes.
// Not thread-safe. Strong guarantee for std::bad_alloc.
class WriteQueue {
 public:
  // An empty queue accepts one record even if it exceeds max_bytes.
  WriteQueue(const KvLayout& layout, size_t max_bytes) : layout_(layout), max_bytes_(max_bytes) {}

  size_t size() const { return pages_.size() + states_.size(); }
  bool empty() const { return size() == 0; }
  size_t bytes() const { return pages_.size() * layout_.page_bytes() + state_bytes_; }

  // Returns false if the queue is full. Ignores a record that is already queued; a longer version of a page replaces a
  // shorter one, and a state with more rows replaces the same state with fewer.
  bool add(WaitingPage page);
  bool add(WaitingState state);

  struct Next {
    std::optional<WaitingPage> page;
    std::optional<WaitingState> state;
  };
  // Removes and returns the first record: a page if there is one, else a state. Returns neither if the queue is empty.
  Next pop();
  // Removes and returns the first page of 64 positions, or nothing.
  Next pop_whole_page();
  bool has_whole_page() const;

  void forget(const Sha256Digest& name_space);
  void clear();
  // Moves all records to `other`, to be destroyed there. REQUIRES: `other` is empty.
  void move_to(WriteQueue& other) noexcept;

 private:
  bool has_room(size_t bytes) const { return empty() || this->bytes() + bytes <= max_bytes_; }
  size_t bytes_of(const WaitingState& state) const;

  const KvLayout& layout_;
  const size_t max_bytes_;
  std::deque<WaitingPage> pages_;
  std::deque<WaitingState> states_;
  size_t state_bytes_ = 0;
};

// Where a page or state belongs: the names of the text before it and of the record, and its tokens from the beginning
// of the page on.
struct RecordPlace {
  PageName before, name;
  TokenSpan page_ids;
};

// Storage of a tier, as seen by WriteBehind. Its calls may throw std::bad_alloc.
class PageSink {
 public:
  virtual ~PageSink() = default;
  // Takes the pen, the storage's lock for changes. Records are popped from the queue and written while the pen is held,
  // so they are written in order.
  virtual std::unique_lock<std::mutex> take_pen() = 0;
  // True if a page is known to be stored that follows place.before, begins with all of place.page_ids and has these
  // parts. A page with more tokens counts as stored with both parts, because a shorter page does not supersede it.
  // Answers from memory, because it is called for each page of a turn on the thread of the turn. Any thread, without
  // the pen.
  virtual bool has(const RecordPlace& place, KvPageParts parts) const = 0;
  // Marks a page, the states within it, and all pages that it continues as used now, so that they are evicted after
  // records that were used earlier. As has(), only in memory; any thread, without the pen.
  virtual void touch(const PageName& before, TokenSpan page_ids) = 0;
  // As has(), for a state after the first n_front tokens with rows for the remaining tokens.
  virtual bool has_state(const RecordPlace& place, size_t n_front) const = 0;
  // Stores a page. rows: the page_bytes() bytes of the page; only `parts` of them are valid, and positions after the
  // last one are zero. `page.page` is empty. A stored version with more tokens or parts stays. Error: nothing was
  // stored. REQUIRES: the caller holds the pen.
  virtual Status write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts parts) = 0;
  // Stores a state and its rows. bytes: state_bytes() bytes; `state.snapshot.state` is empty. Error: nothing was
  // stored. REQUIRES: the caller holds the pen.
  virtual Status write(const WaitingState& state, std::span<const std::byte> bytes) = 0;
  // Makes all writes so far durable. REQUIRES: the caller holds the pen.
  virtual Status settle() = 0;
};

struct WriteBehindOptions {
  size_t waiting_budget_bytes =
      0;  // limit of the queue, which accepts at least one record; 0: half of the pool's budget
  // Rate at which whole pages are written while no processor is idle; 0: they wait, too.
  uint64_t eager_bytes_per_s = 0;
  PageNameRule name_rule = first_half;
  int64_t back_off_ns = 30'000'000'000;
};

class WriteBehind {
 public:
  static constexpr int64_t kBackOffNs = WriteBehindOptions().back_off_ns;

  // Throws std::bad_alloc, and std::system_error if no thread can be started.
  WriteBehind(const WriteBehindOptions& options, KvPagePool& pool, PageSink& sink, Clock& clock,
              std::unique_ptr<IdleTime> idle);
  // Drops queued records: call flush() before. Waits for the record that is being written.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // hand_over() works as KvTier::write_behind(), flush() as KvTier::flush().
  void hand_over(const KvPageIdentity& identity, const KvCacheEntry& entry);
  Status flush(int64_t limit_ns);
  // Counts n_pages that could not be handed over.
  void lose(size_t n_pages, Status why);
  // Drops queued records of a namespace. REQUIRES: the caller holds the sink's pen, so that no record is being written.
  void forget(const Sha256Digest& name_space);

  // Adds the counters of this object to the statistics of a tier.
  void add_to(KvTierStats& stats) const;

 private:
  class HandOver;
  bool may_write(size_t n_pages);
  template <typename Waiting>
  bool enqueue(Waiting waiting);
  bool let_go();
  void run(const std::stop_token& stop);
  std::chrono::nanoseconds time_to_next_write() const;
  bool write_next(bool only_whole_pages = false);
  KvPageParts copy_rows(WaitingPage& waiting);
  Status write(WriteQueue::Next& next);
  void settle();
  void give_up(Status status) noexcept;
  void count_loss(size_t n, Status why) noexcept;

  KvPagePool& pool_;
  PageSink& sink_;
  Clock& clock_;
  const std::unique_ptr<IdleTime> idle_;
  const PageNameRule name_rule_;
  const uint64_t eager_bytes_per_s_;
  const int64_t back_off_ns_;
  std::vector<std::byte> copy_;  // copy of the record that is being written; guarded by the sink's pen

  mutable std::mutex mutex_;          // guards the members below
  std::condition_variable_any wake_;  // wakes the thread
  std::condition_variable copied_;    // signalled when copying_ becomes false
  WriteQueue queue_;
  bool copying_ = false;           // true from popping a record until its memory is copied and released
  size_t writing_bytes_ = 0;       // bytes of the popped record, until it is written
  int64_t next_eager_ns_ = 0;      // time of the next write on a busy machine
  bool settled_ = true;            // true if all writes are durable
  int64_t back_off_until_ns_ = 0;  // nothing is written before this time
  std::string disabled_reason_;
  Status first_loss_;  // first loss since the last flush(); ok: no loss
  size_t n_dropped_ = 0;
  size_t n_failures_ = 0;

  KvPagePool::Registration reclaimer_;
  std::jthread thread_;  // last member, because the thread uses all other members
};

}  // namespace ibid
