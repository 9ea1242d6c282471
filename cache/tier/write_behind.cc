#include "cache/tier/write_behind.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/token_prefix.h"

namespace ibid {

namespace {

// A page that was begun in an idle moment pushes nobody off a processor, and yet is finished like any other work: this
// class has an ordinary share, where the idle class may have nothing and somebody may wait for the pages.
void push_nobody_aside() {
#ifdef SCHED_BATCH
  const sched_param none{};
  static_cast<void>(::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none));
#endif
}

std::string megabytes(uint64_t bytes) { return std::to_string((bytes + 500'000) / 1'000'000) + " MB"; }

size_t max_waiting_pages(size_t budget_bytes, const KvPagePool& pool) {
  const size_t bytes = budget_bytes > 0 ? budget_bytes : pool.budget_bytes() / 2;
  return std::max<size_t>(1, bytes / pool.layout().page_bytes());
}

}  // namespace

WriteBehind::WriteBehind(size_t waiting_budget_bytes, PageNameRule name_rule, KvPagePool& pool, PageSink& sink,
                         Clock& clock, std::unique_ptr<IdleTime> idle)
    : pool_(pool),
      sink_(sink),
      clock_(clock),
      idle_(std::move(idle)),
      name_rule_(name_rule),
      max_waiting_(max_waiting_pages(waiting_budget_bytes, pool)),
      page_copy_(pool.layout().page_bytes()),
      reclaimer_(pool.add_reclaimer([this](size_t) { return let_go(); })),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

WriteBehind::~WriteBehind() = default;  // the thread is told to stop, and joined, first

// --- Handing over.

void WriteBehind::hand_over(const KvPageIdentity& identity, const KvCacheEntry& entry) {
  try {
    queue_pages(identity, entry);
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    count_loss(1, Status(ErrorCode::kOutOfMemory, {}));  // no words: there is no memory for them
  }
  wake_.notify_one();
}

void WriteBehind::queue_pages(const KvPageIdentity& identity, const KvCacheEntry& entry) {
  const TokenSpan ids = entry.tokens();
  PageNamer namer(name_rule_);
  PageName before = namer.first(identity);
  PageName before_that;
  std::shared_ptr<const Tokens> tokens;
  for (size_t position = 0; position < ids.size(); position += kPagePositions) {
    const TokenSpan page_ids = ids.subspan(position, std::min(kPagePositions, ids.size() - position));
    const PageName name = namer.next(before, page_ids);
    const size_t n_left = KvLayout::pages_for(ids.size() - position);
    if (!may_write(n_left)) return;
    if (!sink_.has(before, page_ids)) {
      if (tokens == nullptr) tokens = std::make_shared<const Tokens>(ids.begin(), ids.end());
      const KvPage& page = entry.pages()[position / kPagePositions];
      if (!enqueue({identity, before_that, before, name, tokens, position + page_ids.size(), page})) {
        const std::lock_guard lock(mutex_);
        count_loss(n_left, Status(ErrorCode::kLimitExceeded, "cold tier: too much waits already"));
        return;
      }
    }
    before_that = std::exchange(before, name);
  }
}

// False while the sink is left alone: then n_pages are lost.
bool WriteBehind::may_write(size_t n_pages) {
  const std::lock_guard lock(mutex_);
  if (clock_.steady_ns() < back_off_until_ns_) {
    count_loss(n_pages, Status(ErrorCode::kIo, disabled_reason_));
    return false;
  }
  disabled_reason_.clear();
  return true;
}

// False when there is no room. A page that waits already is not added again, and one that holds the beginning of the
// same page is replaced.
bool WriteBehind::enqueue(WaitingPage waiting) {
  const std::lock_guard lock(mutex_);
  const TokenSpan ids = waiting.page_ids();
  for (WaitingPage& other : queue_) {
    if (other.before != waiting.before || other.identity != waiting.identity) continue;
    const size_t n = common_prefix_length(other.page_ids(), ids);
    if (n < std::min(other.page_ids().size(), ids.size())) continue;
    if (n < ids.size()) std::swap(other, waiting);
    return true;
  }
  if (queue_.size() >= max_waiting_) return false;
  queue_.push_back(std::move(waiting));
  return true;
}

// The pool needs memory more than the tier needs copies. Only when nothing waits is the page that is being copied
// waited for; whoever copies it is no thread of the idle class, so that is the time of a copy.
bool WriteBehind::let_go() {
  std::deque<WaitingPage> queue;  // its pages are given back after the lock is free
  std::unique_lock lock(mutex_);
  queue.swap(queue_);
  if (queue.empty() && !copying_) return false;
  if (queue.empty()) {
    copied_.wait(lock, [this] { return !copying_; });
  } else {
    count_loss(queue.size(), Status(ErrorCode::kOutOfMemory, {}));
  }
  return true;
}

void WriteBehind::forget(const Sha256Digest& name_space) {
  const std::lock_guard lock(mutex_);
  std::erase_if(queue_, [&](const WaitingPage& waiting) { return waiting.identity.name_space == name_space; });
}

// --- Writing.

void WriteBehind::run(const std::stop_token& stop) {
  push_nobody_aside();
  const std::stop_callback interrupts(stop, [this] { idle_->interrupt(); });
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, stop, [this] { return !queue_.empty() || !settled_; });
    }
    if (stop.stop_requested()) return;
    idle_->wait();
    if (stop.stop_requested()) return;
    write_next();
  }
}

Status WriteBehind::flush(int64_t limit_ns) {
  const int64_t begin_ns = clock_.steady_ns();
  bool more = true;
  while (more && clock_.steady_ns() - begin_ns < limit_ns) more = write_next();
  if (more) {  // what was written till now lasts, though pages may still wait
    const std::unique_lock pen = sink_.take_pen();
    settle();
  }
  const std::lock_guard lock(mutex_);
  Status lost = std::exchange(first_loss_, Status());
  if (!more || queue_.empty()) return lost;
  try {
    return {ErrorCode::kLimitExceeded, "cold tier: " + std::to_string(queue_.size()) + " pages (" +
                                           megabytes(queue_.size() * uint64_t{pool_.layout().page_bytes()}) +
                                           ") are not written yet"};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kLimitExceeded, {}};
  }
}

// Writes the first page of the queue, or settles what was written. False: there was nothing to do.
bool WriteBehind::write_next() {
  const std::unique_lock pen = sink_.take_pen();
  std::unique_lock lock(mutex_);
  if (queue_.empty()) {
    const bool settled = settled_;
    lock.unlock();
    if (!settled) settle();
    return !settled;
  }
  WaitingPage waiting = std::move(queue_.front());
  queue_.pop_front();
  copying_ = true;
  lock.unlock();
  const bool is_whole = copy_rows(waiting);
  lock.lock();
  copying_ = false;
  lock.unlock();
  copied_.notify_all();

  Status status;
  try {
    status = is_whole ? sink_.write(waiting, page_copy_)
                      : Status(ErrorCode::kOutOfMemory, "cold tier: rows behind a window were given up first");
  } catch (const std::bad_alloc&) {
    status = Status(ErrorCode::kOutOfMemory, {});
  }
  lock.lock();
  if (status.ok()) {
    settled_ = false;
  } else {
    give_up(std::move(status));
  }
  return true;
}

// So that the pool has its page back at once, and without the rows behind the last: those may be staged, or what a
// longer text left. False: the rows of layers with a window are gone. REQUIRES: the sink's pen.
bool WriteBehind::copy_rows(WaitingPage& waiting) {
  const size_t n_rows = waiting.n_rows();
  KvWindowLease lease = pool_.lease_window(waiting.page);
  if (!lease && pool_.layout().window() > 0) return waiting.page = KvPage(), false;
  if (n_rows < kPagePositions) std::memset(page_copy_.data(), 0, page_copy_.size());
  pool_.layout().copy_rows(waiting.page.parts(), pool_.layout().parts_of(page_copy_.data()), n_rows);
  lease = KvWindowLease();
  waiting.page = KvPage();
  return true;
}

// REQUIRES: the sink's pen.
void WriteBehind::settle() {
  Status status;
  try {
    status = sink_.settle();
  } catch (const std::bad_alloc&) {
    status = Status(ErrorCode::kOutOfMemory, {});
  }
  const std::lock_guard lock(mutex_);
  settled_ = true;
  if (!status.ok()) give_up(std::move(status));
}

// A page could not be written. If the device is to blame, nothing is for a while. REQUIRES: mutex_.
void WriteBehind::give_up(Status status) noexcept {
  if (status.code() == ErrorCode::kIo) {
    ++n_failures_;
    n_dropped_ += queue_.size();
    queue_.clear();
    back_off_until_ns_ = clock_.steady_ns() + kBackOffNs;
    try {
      disabled_reason_ = status.message();
    } catch (const std::bad_alloc&) {
      disabled_reason_ = "disk failed";  // short enough to need no memory
    }
  }
  count_loss(1, std::move(status));
}

// REQUIRES: mutex_.
void WriteBehind::count_loss(size_t n_pages, Status why) noexcept {
  n_dropped_ += n_pages;
  if (first_loss_.ok()) first_loss_ = std::move(why);
}

void WriteBehind::add_to(KvTierStats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.waiting = queue_.size();
  stats.waiting_bytes = queue_.size() * uint64_t{pool_.layout().page_bytes()};
  stats.dropped += n_dropped_;
  stats.failures += n_failures_;
  stats.disabled_reason = disabled_reason_;
}

}  // namespace ibid
