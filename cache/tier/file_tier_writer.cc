// The writing half of FileTier: everything that changes files, except clear() and the quarantine.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"
#include "cache/tier/file_tier.h"

namespace ibid {

namespace {

// A page that was begun in an idle moment pushes nobody off a processor, and yet is finished like any other work: this
// class has an ordinary share, where the idle class may have nothing and somebody may wait for the files.
void push_nobody_aside() {
#ifdef SCHED_BATCH
  const sched_param none{};
  static_cast<void>(::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none));
#endif
}

std::string megabytes(uint64_t bytes) { return std::to_string((bytes + 500'000) / 1'000'000) + " MB"; }

}  // namespace

void FileTier::run() {
  push_nobody_aside();
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty() || unsynced_; });
    if (stopping_) return;
    lock.unlock();
    idle_->wait();
    lock.lock();
    if (stopping_) return;
    lock.unlock();
    write_some();
    lock.lock();
  }
}

Status FileTier::flush(int64_t limit_ns) {
  const int64_t begin_ns = clock_.steady_ns();
  bool more = true;
  while (more && clock_.steady_ns() - begin_ns < limit_ns) more = write_some();
  if (more) make_durable();
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

// Makes durable what was written till now, though pages may still wait.
void FileTier::make_durable() {
  const std::lock_guard files_lock(files_mutex_);
  finish_writing();
}

// Writes the first page of the queue, or makes durable what was written. False: there was nothing to do.
bool FileTier::write_some() {
  const std::lock_guard files_lock(files_mutex_);
  std::unique_lock lock(mutex_);
  if (queue_.empty()) {
    const bool unsynced = unsynced_;
    lock.unlock();
    if (unsynced) finish_writing();
    return unsynced;
  }
  Waiting waiting = std::move(queue_.front());
  queue_.pop_front();
  copying_ = true;
  lock.unlock();
  copy_page(waiting);
  lock.lock();
  copying_ = false;
  lock.unlock();
  copied_.notify_all();

  Status status;
  try {
    status = write_page(waiting);
  } catch (const std::bad_alloc&) {
    status = Status(ErrorCode::kOutOfMemory, {});
  }
  if (!status.ok()) {
    lock.lock();
    give_up(std::move(status));
  }
  return true;
}

// A copy, so that the pool has its page back at once, and without the rows behind the last: those may be staged, or
// what a longer text left. REQUIRES: files_mutex_.
void FileTier::copy_page(Waiting& waiting) {
  const size_t n_rows = waiting.n_ids - waiting.first_position();
  if (n_rows < kPagePositions) std::memset(page_copy_.data(), 0, page_copy_.size());
  pool_.layout().copy_rows(waiting.page.data(), page_copy_.data(), n_rows);
  waiting.page = KvPage();
}

// REQUIRES: files_mutex_.
Status FileTier::write_page(const Waiting& waiting) {
  const KvLayout& layout = pool_.layout();
  const std::vector<std::byte> header =
      encode_kv_page_header(layout, waiting.identity, waiting.ids(), page_copy_.data());
  StoredPage stored{.file_name = page_file_name(waiting.before, waiting.name),
                    .before = waiting.before,
                    .name = waiting.name,
                    .name_space = waiting.identity.name_space,
                    .first_position = waiting.first_position(),
                    .ids = Tokens(waiting.page_ids().begin(), waiting.page_ids().end()),
                    .bytes = header.size() + page_copy_.size()};
  const std::string file_name = stored.file_name;
  TRY(make_room(waiting.continues, stored.bytes));
  std::unique_lock lock(mutex_);
  std::vector<std::string> superseded = index_.files_superseded_by(waiting.before, waiting.page_ids());
  const int64_t now_ns = stored.last_use_ns = next_use_ns();
  lock.unlock();
  superseded_.reserve(superseded_.size() + superseded.size());
  FileTierIndex::Prepared prepared = FileTierIndex::prepare(std::move(stored));

  TRY(directory_->write(file_name, header, page_copy_, now_ns, options_.durable));
  // Nothing below fails: what has a name is in the index.
  lock.lock();
  unsynced_ = true;
  ++stats_.pages_written;
  index_.insert(std::move(prepared));
  std::move(superseded.begin(), superseded.end(), std::back_inserter(superseded_));
  return {};
}

// Evicts until `bytes` fit. Error: kLimitExceeded when only the page that the new one continues could go, or when that
// is not there: nobody would find the new one.
Status FileTier::make_room(const std::string& continues, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  if (!continues.empty() && index_.find(continues) == nullptr) {
    return {ErrorCode::kLimitExceeded, "cold tier: the page before is not on disk"};
  }
  index_.touch(continues, next_use_ns());  // it is about to be used: the last to go
  while (index_.bytes() + bytes > options_.budget_bytes) {
    const StoredPage* victim = index_.oldest();
    if (victim == nullptr || victim->file_name == continues) {
      return {ErrorCode::kLimitExceeded, "cold tier: more pages than the budget of " +
                                             std::to_string(options_.budget_bytes) + " bytes holds"};
    }
    const std::string file_name = victim->file_name;
    lock.unlock();
    TRY(remove_file(file_name));
    lock.lock();
    ++stats_.evicted;
  }
  return {};
}

// Removes a file and forgets it; when that fails it is still there. REQUIRES: files_mutex_, but for open().
Status FileTier::remove_file(const std::string& file_name) {
  const std::string name = file_name;  // the caller's may be the index's own
  TRY(directory_->remove(name));
  const std::lock_guard lock(mutex_);
  index_.erase(name);
  return {};
}

// The new names are made durable, and then what they supersede goes. In the other order a power
// loss could take both. REQUIRES: files_mutex_.
void FileTier::finish_writing() {
  Status status;
  try {
    if (options_.durable) status = directory_->sync();
    for (const std::string& file_name : superseded_) {
      if (status.ok()) status = remove_file(file_name);
    }
  } catch (const std::bad_alloc&) {
    status = Status(ErrorCode::kOutOfMemory, {});
  }
  superseded_.clear();
  const std::lock_guard lock(mutex_);
  unsynced_ = false;
  if (!status.ok()) give_up(std::move(status));
}

// A page could not be written. If the disk is to blame, nothing is for a while. REQUIRES: mutex_.
void FileTier::give_up(Status status) noexcept {
  if (status.code() == ErrorCode::kIo) {
    ++stats_.failures;
    stats_.dropped += queue_.size();
    queue_.clear();
    back_off_until_ns_ = clock_.steady_ns() + kBackOffNs;
    try {
      stats_.disabled_reason = status.message();
    } catch (const std::bad_alloc&) {
      stats_.disabled_reason = "disk failed";  // short enough to need no memory
    }
  }
  count_loss(1, std::move(status));
}

}  // namespace ibid
