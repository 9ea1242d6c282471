// WriteBehind: pages and states on their way to where a tier keeps them: those that wait (WriteQueue), the thread that
// writes them when a processor is idle, and what happens when they cannot be written. It knows nothing of where they
// go; that is a PageSink.
//
// The thread writes one of them at a time, and begins one when nobody else wants a processor. flush() does not wait for
// that thread but writes on its caller's. So a machine that is never idle delays nobody, and no thread that could be
// left without a processor ever holds a lock or a page (base/idle_time.h).
//
// What waits holds memory of the pool. The pool takes it back when somebody needs it, and then it is not written: the
// object is one of the pool's reclaimers. A page or a state is copied before it is written, so none is held while the
// sink is waited for. Of a page whose rows behind a window are gone the rest is written; when another sequence has
// computed them again, all of it is.
//
// When the sink fails as a device does (kIo), what waits is dropped, and nothing is written for kBackOffNs.
//
// Thread-safe. The sink's pen is taken before the mutex here, and has() is called without either.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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
#include "cache/tier/kv_page_file.h"
#include "cache/tier/kv_tier.h"
#include "cache/tier/page_name.h"
#include "cache/tier/write_queue.h"
#include "ibid/token.h"

namespace ibid {

// Where pages and states go. Its calls may throw std::bad_alloc.
class PageSink {
 public:
  virtual ~PageSink() = default;
  // The pen: whoever changes what is stored has it, one at a time. A page is taken from the queue and written by one
  // who holds it, so pages are written in their order.
  virtual std::unique_lock<std::mutex> take_pen() = 0;
  // Whether these parts of a page behind `before` that begins with all of these ids are stored. Any thread, without the
  // pen. Of a page of more ids the first part counts for both: it is no beginning of a shorter one's.
  virtual bool has(const PageName& before, TokenSpan page_ids, KvPageParts parts) const = 0;
  // Such a page, and states within it, are about to be used, and with them all that they continue: they go after what
  // was used before.
  virtual void touch(const PageName& before, TokenSpan page_ids) = 0;
  // has() for a state of the first n_front of these ids, with rows of the others.
  virtual bool has_state(const PageName& before, TokenSpan page_ids, size_t n_front) const = 0;
  // Stores a page. rows: page_bytes() long, zero behind the page's last row, of which these parts count; `page.page` is
  // empty. Where more of it is stored already, that stays. Error: it is not stored. REQUIRES: the pen.
  virtual Status write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts parts) = 0;
  // Stores a state and its rows. bytes: state_bytes() long; `state.snapshot.state` is empty. Error and REQUIRES: as of
  // a page.
  virtual Status write(const WaitingState& state, std::span<const std::byte> bytes) = 0;
  // Makes what was written so far last, whatever happens next. REQUIRES: the pen.
  virtual Status settle() = 0;
};

class WriteBehind {
 public:
  static constexpr int64_t kBackOffNs = 30'000'000'000;

  // At most waiting_budget_bytes wait, one page or state at least; 0: half of the pool's budget. Throws std::bad_alloc,
  // and std::system_error when there is no thread.
  WriteBehind(size_t waiting_budget_bytes, PageNameRule name_rule, KvPagePool& pool, PageSink& sink, Clock& clock,
              std::unique_ptr<IdleTime> idle);
  // What still waits is not written: flush() before. The page that is being written is waited for.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // As KvTier::write_behind() and flush().
  void hand_over(const KvPageIdentity& identity, const KvCacheEntry& entry);
  Status flush(int64_t limit_ns);
  // Forgets what waits of a namespace. REQUIRES: the caller has the sink's pen, so that none of it is being written.
  void forget(const Sha256Digest& name_space);

  // Adds what is known here to the statistics of a tier.
  void add_to(KvTierStats& stats) const;

 private:
  class HandOver;
  bool may_write(size_t n_pages);
  template <typename Waiting>
  bool enqueue(Waiting waiting);
  bool let_go();
  void run(const std::stop_token& stop);
  bool write_next();
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
  std::vector<std::byte> copy_;        // of the page or state that is being written; of whoever has the sink's pen

  mutable std::mutex mutex_;           // guards what follows
  std::condition_variable_any wake_;   // of the thread: there is something to do
  std::condition_variable copied_;     // copying_ became false
  WriteQueue queue_;
  bool copying_ = false;               // what left the queue is still held, until it is copied
  bool settled_ = true;                // everything that was written lasts
  int64_t back_off_until_ns_ = 0;      // before that nothing is written
  std::string disabled_reason_;
  Status first_loss_;                  // since the last flush()
  size_t n_dropped_ = 0;
  size_t n_failures_ = 0;

  KvPagePool::Registration reclaimer_;
  std::jthread thread_;                // last: it uses all of the above
};

}  // namespace ibid
