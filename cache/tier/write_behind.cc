#include "cache/tier/write_behind.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/token_prefix.h"

namespace ibid {

bool WriteQueue::add(WaitingPage waiting) {
  const TokenSpan ids = waiting.page_ids();
  for (WaitingPage& other : pages_) {
    if (other.before.digest != waiting.before.digest) continue;
    const size_t n = common_prefix_length(other.page_ids(), ids);
    if (n < std::min(other.page_ids().size(), ids.size())) continue;
    if (n < ids.size()) std::swap(other, waiting);
    return true;
  }
  if (!has_room(layout_.page_bytes())) return false;
  pages_.push_back(std::move(waiting));
  return true;
}

size_t WriteQueue::bytes_of(const WaitingState& state) const {
  return (state.snapshot.position == 0 ? 0 : layout_.state_bytes()) +
         state.snapshot.n_rows * layout_.state_row_floats() * sizeof(float);
}

bool WriteQueue::add(WaitingState waiting) {
  const TokenSpan ids = waiting.page_ids();
  for (WaitingState& other : states_) {
    if (other.snapshot.position != waiting.snapshot.position) continue;
    if (other.before.digest != waiting.before.digest) continue;
    const size_t n = common_prefix_length(other.page_ids(), ids);
    if (n < std::min(other.page_ids().size(), ids.size())) continue;
    if (n == ids.size()) return true;
    state_bytes_ += bytes_of(waiting) - bytes_of(other);
    std::swap(other, waiting);
    return true;
  }
  if (!has_room(bytes_of(waiting))) return false;
  states_.push_back(std::move(waiting));
  state_bytes_ += bytes_of(states_.back());
  return true;
}

WriteQueue::Next WriteQueue::pop() {
  Next next;
  if (!pages_.empty()) {
    next.page = std::move(pages_.front());
    pages_.pop_front();
  } else if (!states_.empty()) {
    state_bytes_ -= bytes_of(states_.front());
    next.state = std::move(states_.front());
    states_.pop_front();
  }
  return next;
}

bool WriteQueue::has_whole_page() const {
  return std::ranges::any_of(pages_, [](const WaitingPage& page) { return page.n_rows() == kPagePositions; });
}

WriteQueue::Next WriteQueue::pop_whole_page() {
  Next next;
  const auto page = std::ranges::find(pages_, kPagePositions, &WaitingPage::n_rows);
  if (page == pages_.end()) return next;
  next.page = std::move(*page);
  pages_.erase(page);
  return next;
}

void WriteQueue::forget(const Sha256Digest& name_space) {
  const auto is_of = [&](const auto& waiting) { return waiting.identity.name_space == name_space; };
  std::erase_if(pages_, is_of);
  std::erase_if(states_, is_of);
  state_bytes_ = 0;
  for (const WaitingState& state : states_) state_bytes_ += bytes_of(state);
}

void WriteQueue::clear() {
  pages_.clear();
  states_.clear();
  state_bytes_ = 0;
}

void WriteQueue::move_to(WriteQueue& other) noexcept {
  pages_.swap(other.pages_);
  states_.swap(other.states_);
  std::swap(state_bytes_, other.state_bytes_);
}

namespace {

// Lets other threads run first, but keeps an ordinary share of the processor: with SCHED_IDLE it could get no processor
// while a caller waits for the page that this thread copies.
void lower_priority() {
#ifdef SCHED_BATCH
  const sched_param none{};
  static_cast<void>(::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none));
#endif
}

// Time after which the thread searches the queue for whole pages again.
constexpr std::chrono::milliseconds kLookAgain{100};

std::string megabytes(uint64_t bytes) { return std::to_string((bytes + 500'000) / 1'000'000) + " MB"; }

size_t max_waiting_bytes(size_t budget_bytes, const KvPagePool& pool) {
  return budget_bytes > 0 ? budget_bytes : pool.budget_bytes() / 2;
}

// Returns the snapshots of the entry's recurrent states by ascending position; of several snapshots at one position
// only the one with the most rows.
std::vector<StateSnapshot> snapshots_of(const KvCacheEntry& entry) {
  std::vector<StateSnapshot> snapshots(entry.state().kept().begin(), entry.state().kept().end());
  snapshots.push_back(entry.state().now(entry.length()));
  std::erase_if(snapshots, [](const StateSnapshot& snapshot) { return snapshot.end() == 0; });
  std::ranges::sort(snapshots, {}, [](const StateSnapshot& snapshot) {
    return std::pair(snapshot.position, kMostKeptRows - snapshot.n_rows);
  });
  // std::ranges::unique of libstdc++ does not compile with clang 14, which builds the fuzzers.
  const auto at_one_position = [](const StateSnapshot& a, const StateSnapshot& b) { return a.position == b.position; };
  snapshots.erase(std::unique(snapshots.begin(), snapshots.end(), at_one_position), snapshots.end());
  return snapshots;
}

}  // namespace

WriteBehind::WriteBehind(const WriteBehindOptions& options, KvPagePool& pool, PageSink& sink, Clock& clock,
                         std::unique_ptr<IdleTime> idle)
    : pool_(pool),
      sink_(sink),
      clock_(clock),
      idle_(std::move(idle)),
      name_rule_(options.name_rule),
      eager_bytes_per_s_(options.eager_bytes_per_s),
      back_off_ns_(options.back_off_ns),
      copy_(std::max(pool.layout().page_bytes(), pool.layout().state_bytes())),
      queue_(pool.layout(), max_waiting_bytes(options.waiting_budget_bytes, pool)),
      reclaimer_(pool.add_reclaimer([this](size_t) { return let_go(); })),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

WriteBehind::~WriteBehind() = default;  // joins the thread first

// One call of hand_over(), which visits the pages of the entry in order.
class WriteBehind::HandOver {
 public:
  HandOver(WriteBehind& writing, const KvPageIdentity& identity, const KvCacheEntry& entry)
      : writing_(writing), identity_(identity), entry_(entry), namer_(writing.name_rule_) {
    before_ = namer_.first(identity);
  }

  void run() {
    walk();
    if (tokens_ == nullptr) return;  // nothing is queued
    // Mark the stored records of this sequence as used, so that writing its other records does not evict them.
    for (const std::optional<RecordPlace>& stored : {last_page_, last_state_}) {
      if (stored) writing_.sink_.touch(stored->before, stored->page_ids);
    }
  }

 private:
  void walk() {
    const TokenSpan ids = entry_.tokens();
    if (entry_.layout().n_states() > 0) snapshots_ = snapshots_of(entry_);
    for (size_t position = 0; position < ids.size(); position += kPagePositions) {
      if (!add_states(position)) return;
      const TokenSpan page_ids = ids.subspan(position, std::min(kPagePositions, ids.size() - position));
      const TextName after = namer_.next(before_, page_ids);
      const size_t n_left = KvLayout::pages_for(ids.size() - position);
      if (!writing_.may_write(n_left)) return;
      const KvPage& page = entry_.pages()[position / kPagePositions];
      const RecordPlace place{before_.name, after.name, page_ids};
      const bool is_stored = writing_.sink_.has(place, KvPageParts::kFirst);
      if (is_stored) last_page_ = place;
      if (!is_stored || !writing_.sink_.has(place, parts_of(page))) {
        if (!add(WaitingPage{identity_, before_that_, before_, after.name, tokens(), position + page_ids.size(),
                             page})) {
          return lose(n_left);
        }
      }
      before_that_ = std::exchange(before_, after).name;
    }
    if (ids.size() % kPagePositions == 0) (void)add_states(ids.size());
  }

  KvPageParts parts_of(const KvPage& page) const {
    const bool is_whole = entry_.layout().window() == 0 || entry_.pool().has_window(page);
    return is_whole ? KvPageParts::kBoth : KvPageParts::kFirst;
  }

  // A copy of the entry's tokens, shared by all records of this call.
  const std::shared_ptr<const Tokens>& tokens() {
    if (tokens_ == nullptr) tokens_ = std::make_shared<const Tokens>(entry_.tokens().begin(), entry_.tokens().end());
    return tokens_;
  }

  template <typename Waiting>
  bool add(Waiting waiting) {
    return writing_.enqueue(std::move(waiting));
  }
  void lose(size_t n) { writing_.lose(n, Status(ErrorCode::kLimitExceeded, "cold tier: the write queue is full")); }

  // Queues the states whose position is in the page that begins at page_begin. Returns false if the queue is full.
  bool add_states(size_t page_begin) {
    for (; n_states_ < snapshots_.size(); ++n_states_) {
      const StateSnapshot& snapshot = snapshots_[n_states_];
      if (snapshot.position >= page_begin + kPagePositions) return true;
      const TokenSpan page_ids = entry_.tokens().first(snapshot.end()).subspan(page_begin);
      const size_t n_front = snapshot.position - page_begin;
      const PageName name = namer_.state(before_, page_ids, n_front);
      const RecordPlace place{before_.name, name, page_ids};
      if (writing_.sink_.has_state(place, n_front)) {
        last_state_ = place;
        continue;
      }
      if (!add(WaitingState{identity_, before_that_, before_, name, tokens(), snapshot})) {
        return lose(snapshots_.size() - n_states_), false;
      }
    }
    return true;
  }

  WriteBehind& writing_;
  const KvPageIdentity& identity_;
  const KvCacheEntry& entry_;
  PageNamer namer_;
  TextName before_;
  PageName before_that_;
  std::shared_ptr<const Tokens> tokens_;  // null until a record is queued
  std::vector<StateSnapshot> snapshots_;
  size_t n_states_ = 0;                                // number of snapshots visited so far
  std::optional<RecordPlace> last_page_, last_state_;  // the last that are stored already
};

void WriteBehind::hand_over(const KvPageIdentity& identity, const KvCacheEntry& entry) {
  Status status = guarded([&]() -> Status {
    HandOver(*this, identity, entry).run();
    return {};
  });
  if (!status.ok()) lose(1, std::move(status));
  wake_.notify_one();
}

void WriteBehind::lose(size_t n_pages, Status why) {
  const std::lock_guard lock(mutex_);
  count_loss(n_pages, std::move(why));
}

// Returns false during the back-off after an I/O error, and then counts n_pages as lost.
bool WriteBehind::may_write(size_t n_pages) {
  const std::lock_guard lock(mutex_);
  if (clock_.steady_ns() < back_off_until_ns_) {
    count_loss(n_pages, Status(ErrorCode::kIo, disabled_reason_));
    return false;
  }
  disabled_reason_.clear();
  return true;
}

// Adds a page or state to the queue. Returns false if the queue is full.
template <typename Waiting>
bool WriteBehind::enqueue(Waiting waiting) {
  const std::lock_guard lock(mutex_);
  return queue_.add(std::move(waiting));
}

// The pool's reclaimer: drops queued writes, because the pool needs their memory. If the queue is empty, waits for a
// page that is being copied; this takes only the time of one copy, because the copying thread is not of the class
// SCHED_IDLE.
bool WriteBehind::let_go() {
  WriteQueue queue(pool_.layout(), 0);  // destroyed after unlocking; frees its pages then
  std::unique_lock lock(mutex_);
  queue_.move_to(queue);
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
  queue_.forget(name_space);
}

void WriteBehind::run(const std::stop_token& stop) {
  lower_priority();
  const std::stop_callback interrupts(stop, [this] { idle_->interrupt(); });
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, stop, [this] { return !queue_.empty() || !settled_; });
    }
    if (stop.stop_requested()) return;
    const bool is_idle = idle_->wait_for(time_to_next_write());
    if (stop.stop_requested()) return;
    write_next(!is_idle);
  }
}

// Time for which the thread waits for an idle processor.
std::chrono::nanoseconds WriteBehind::time_to_next_write() const {
  if (eager_bytes_per_s_ == 0) return IdleTime::kNoLimit;
  const std::lock_guard lock(mutex_);
  // A turn that ends meanwhile does not wake the thread.
  if (!queue_.has_whole_page()) return kLookAgain;
  return std::chrono::nanoseconds(std::max<int64_t>(next_eager_ns_ - clock_.steady_ns(), 0));
}

Status WriteBehind::flush(int64_t limit_ns) {
  const int64_t begin_ns = clock_.steady_ns();
  bool more = true;
  while (more && clock_.steady_ns() - begin_ns < limit_ns) more = write_next();
  if (more) {  // make the writes so far durable, although records are still queued
    const std::unique_lock pen = sink_.take_pen();
    settle();
  }
  const std::lock_guard lock(mutex_);
  Status lost = std::exchange(first_loss_, Status());
  if (!more || queue_.empty()) return lost;
  try {
    const char* what = pool_.layout().n_states() > 0 ? " pages and states (" : " pages (";
    return {ErrorCode::kLimitExceeded,
            "cold tier: " + std::to_string(queue_.size()) + what + megabytes(queue_.bytes()) + ") are not written yet"};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kLimitExceeded, {}};
  }
}

// Writes the first record (or whole page) of the queue, or else makes earlier writes durable. Returns false if there
// was nothing to do.
bool WriteBehind::write_next(bool only_whole_pages) {
  const std::unique_lock pen = sink_.take_pen();
  std::unique_lock lock(mutex_);
  if (only_whole_pages ? !queue_.has_whole_page() : queue_.empty()) {
    const bool settled = settled_;
    lock.unlock();
    if (!settled) settle();
    return !settled;
  }
  const size_t n_bytes = queue_.bytes();
  WriteQueue::Next next = only_whole_pages ? queue_.pop_whole_page() : queue_.pop();
  writing_bytes_ = n_bytes - queue_.bytes();
  if (eager_bytes_per_s_ > 0) {
    const double seconds = static_cast<double>(writing_bytes_) / static_cast<double>(eager_bytes_per_s_);
    next_eager_ns_ = std::max(next_eager_ns_, clock_.steady_ns()) + static_cast<int64_t>(seconds * 1e9);
  }
  copying_ = true;
  lock.unlock();
  Status status = guarded([&] { return write(next); });
  lock.lock();
  writing_bytes_ = 0;
  if (status.ok()) {
    settled_ = false;
  } else {
    give_up(std::move(status));
  }
  return true;
}

// Copies the page or state of `next`, frees it, clears copying_, and writes the copy. REQUIRES: the caller holds the
// sink's pen, and copying_ is true.
Status WriteBehind::write(WriteQueue::Next& next) {
  KvPageParts parts = KvPageParts::kBoth;
  if (next.page) {
    parts = copy_rows(*next.page);
  } else if (KvPage& state = next.state->snapshot.state) {
    std::memcpy(copy_.data(), state.data(), pool_.layout().state_bytes());
    state = KvPage();
  }
  {
    const std::lock_guard lock(mutex_);
    copying_ = false;
  }
  copied_.notify_all();
  if (next.state) return sink_.write(*next.state, std::span(copy_).first(pool_.layout().state_bytes()));
  return sink_.write(*next.page, std::span(copy_).first(pool_.layout().page_bytes()), parts);
}

// Copies a page and releases it, so that the pool gets it back before the I/O. Zeroes the positions after the last one
// in the copy, because in the page they may be staged, or left over from a longer text. Returns the parts that were
// copied. REQUIRES: the caller holds the sink's pen.
KvPageParts WriteBehind::copy_rows(WaitingPage& waiting) {
  const KvLayout& layout = pool_.layout();
  const size_t n_rows = waiting.n_rows();
  const std::span<std::byte> copy = std::span(copy_).first(layout.page_bytes());
  if (n_rows < kPagePositions) std::memset(copy.data(), 0, copy.size());
  const KvPage page = std::move(waiting.page);  // destroyed after `window`, which may use the page until then
  const KvWindowReader window = pool_.read_window(page);
  layout.copy_rows({page.data(), window ? page.parts().window : nullptr}, layout.parts_of(copy.data()), n_rows);
  return layout.window() == 0 || window ? KvPageParts::kBoth : KvPageParts::kFirst;
}

// Makes all writes so far durable. REQUIRES: the caller holds the sink's pen.
void WriteBehind::settle() {
  Status status = guarded([&] { return sink_.settle(); });
  const std::lock_guard lock(mutex_);
  settled_ = true;
  if (!status.ok()) give_up(std::move(status));
}

// Handles a failed write; after an I/O error nothing is written until the back-off ends. REQUIRES: mutex_ is locked.
void WriteBehind::give_up(Status status) noexcept {
  if (status.code() == ErrorCode::kIo) {
    ++n_failures_;
    n_dropped_ += queue_.size();
    queue_.clear();
    back_off_until_ns_ = clock_.steady_ns() + back_off_ns_;
    try {
      disabled_reason_ = status.message();
    } catch (const std::bad_alloc&) {
      disabled_reason_ = "disk failed";  // so short that the string allocates nothing
    }
  }
  count_loss(1, std::move(status));
}

// Counts n records as dropped; first_loss_ keeps the first reason. REQUIRES: mutex_ is locked.
void WriteBehind::count_loss(size_t n, Status why) noexcept {
  n_dropped_ += n;
  if (first_loss_.ok()) first_loss_ = std::move(why);
}

void WriteBehind::add_to(KvTierStats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.waiting = queue_.size();
  stats.waiting_bytes = queue_.bytes() + writing_bytes_;
  stats.dropped += n_dropped_;
  stats.failures += n_failures_;
  stats.disabled_reason = disabled_reason_;
}

}  // namespace ibid
