#include "cache/tier/file_tier.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace ibid {

namespace {

// From so many files on a second thread is worth its making.
constexpr size_t kManyPages = 4;

Status no_heap() { return {ErrorCode::kOutOfMemory, "cold tier: no heap memory"}; }

size_t max_waiting_pages(const FileTierOptions& options, const KvPagePool& pool) {
  const size_t bytes = options.waiting_budget_bytes > 0 ? options.waiting_budget_bytes : pool.budget_bytes() / 2;
  return std::max<size_t>(1, bytes / pool.layout().page_bytes());
}

}  // namespace

FileTier::FileTier(FileTierOptions options, KvPagePool& pool, std::unique_ptr<TierDirectory> directory, Clock& clock,
                   std::unique_ptr<IdleTime> idle)
    : options_(std::move(options)),
      pool_(pool),
      clock_(clock),
      max_waiting_(max_waiting_pages(options_, pool)),
      directory_(std::move(directory)),
      idle_(std::move(idle)),
      page_copy_(pool.layout().page_bytes()) {}

Result<std::unique_ptr<FileTier>> FileTier::open(FileTierOptions options, KvPagePool& pool, FileOps& files,
                                                 Clock& clock, std::unique_ptr<IdleTime> idle) {
  try {
    if (idle == nullptr) idle = make_idle_time();
    TRY_ASSIGN(std::unique_ptr<TierDirectory> directory, TierDirectory::open(options.directory, files));
    std::unique_ptr<FileTier> tier(new FileTier(std::move(options), pool, std::move(directory), clock,
                                                std::move(idle)));
    TRY(tier->take_over());
    tier->writer_ = std::thread([raw = tier.get()] { raw->run(); });
    pool.set_let_go([raw = tier.get()] { return raw->let_go(); });
    return tier;
  } catch (const std::bad_alloc&) {
    return no_heap();
  } catch (const std::system_error& error) {
    return Status(ErrorCode::kIo, std::string("cold tier: no thread: ") + error.what());
  }
}

Status FileTier::take_over() {
  PageNamer namer(options_.name_bits);
  TRY_ASSIGN(TierDirectory::Contents contents, directory_->scan(options_.fingerprint, namer));
  stats_.quarantined = contents.n_quarantined;
  stats_.failures = contents.n_unreadable;
  for (StoredPage& page : contents.pages) index_.insert(std::move(page));
  while (index_.bytes() > options_.budget_bytes) {
    TRY(remove_file(index_.oldest()->file_name));
    ++stats_.evicted;
  }
  return {};
}

FileTier::~FileTier() {
  pool_.set_let_go({});
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  wake_.notify_all();
  idle_->interrupt();
  if (writer_.joinable()) writer_.join();
}

KvPageIdentity FileTier::identity_of(std::string_view name_space) const {
  return {options_.fingerprint, digest_of_namespace(name_space)};
}

int64_t FileTier::next_use_ns() const {
  // The date may jump back; the order of uses does not.
  return std::max(clock_.unix_ns(), index_.newest_ns() + 1);
}

// --- Reading.

size_t FileTier::extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry) {
  CHECK_LE(entry.length(), ids.size());
  size_t n_added = 0;
  try {
    n_added = read_into(identity_of(name_space), ids, entry);
  } catch (const std::bad_alloc&) {
    // Nothing was adopted: that is the last thing that happens.
  }
  const std::lock_guard lock(mutex_);
  ++(n_added > 0 ? stats_.hits : stats_.misses);
  stats_.tokens_read += n_added;
  return n_added;
}

// What continues the first `length` of `ids`, page by page. The pages are not read yet.
std::vector<FileTier::Found> FileTier::find(const KvPageIdentity& identity, TokenSpan ids, size_t length) const {
  PageNamer namer(options_.name_bits);
  PageName before = namer.first(identity);
  size_t position = 0;
  for (; position + kPagePositions <= length; position += kPagePositions) {
    before = namer.next(before, ids.subspan(position, kPagePositions));
  }
  std::vector<Found> found;
  while (position < ids.size()) {
    const TokenSpan wanted = ids.subspan(position, std::min(kPagePositions, ids.size() - position));
    {
      const std::lock_guard lock(mutex_);
      const FileTierIndex::Match match = index_.best_match(before, wanted);
      if (position + match.n_rows <= length || match.page == nullptr || match.page->first_position != position) break;
      found.push_back({match.page->file_name, position + match.page->ids.size(), position + match.n_rows});
    }
    position = found.back().n_used;
    if (position % kPagePositions != 0) break;
    before = namer.next(before, wanted);
  }
  return found;
}

// The pages of the first files that are sound. Many are read on two threads: neither disk nor memory is busy with one.
std::vector<KvPage> FileTier::read_pages(const KvPageIdentity& identity, TokenSpan ids,
                                         const std::vector<Found>& found) {
  std::vector<KvPage> pages(found.size());
  std::vector<Status> statuses(found.size());
  std::atomic<size_t> next{0};
  const auto read_some = [&] {
    std::vector<std::byte> scratch;
    for (size_t i = next++; i < found.size(); i = next++) {
      try {
        statuses[i] = read_page(identity, ids, found[i], scratch, pages[i]);
      } catch (const std::bad_alloc&) {
        statuses[i] = no_heap();
      }
      if (!statuses[i].ok()) next = found.size();  // nothing behind it can be used
    }
  };
  {
    std::jthread other;
    try {
      if (found.size() >= kManyPages) other = std::jthread(read_some);
    } catch (const std::exception&) {
      // Without another thread this one reads all of them.
    }
    read_some();
  }
  size_t n_sound = 0;
  while (n_sound < found.size() && statuses[n_sound].ok() && pages[n_sound]) ++n_sound;
  if (n_sound < found.size() && !statuses[n_sound].ok()) give_up_file(found[n_sound].file_name, statuses[n_sound]);
  pages.resize(n_sound);
  return pages;
}

size_t FileTier::read_into(const KvPageIdentity& identity, TokenSpan ids, KvCacheEntry& entry) {
  const size_t length = entry.length();
  const std::vector<Found> found = find(identity, ids, length);
  std::vector<KvPage> pages = read_pages(identity, ids, found);
  if (pages.empty()) return 0;
  const Found& last = found[pages.size() - 1];
  const size_t n_pages = pages.size();
  if (!entry.adopt_more(std::move(pages), ids.subspan(length, last.n_used - length)).ok()) return 0;

  // The last one alone: a page is as young as what continues it.
  std::unique_lock lock(mutex_);
  stats_.pages_read += n_pages;
  const int64_t now_ns = next_use_ns();
  index_.touch(last.file_name, now_ns);
  lock.unlock();
  directory_->set_mtime(last.file_name, now_ns);
  return last.n_used - length;
}

// One page from its file into one of the pool, which is nobody's until all of it was verified.
Status FileTier::read_page(const KvPageIdentity& identity, TokenSpan ids, const Found& found,
                           std::vector<std::byte>& scratch, KvPage& page) {
  TRY_ASSIGN(page, pool_.allocate());
  return directory_->read(found.file_name, pool_.layout(), identity, found.n_ids, ids.first(found.n_used), scratch,
                          page.data());
}

// Takes a file that cannot be used out of the index, so that it is not read again.
void FileTier::give_up_file(const std::string& file_name, const Status& status) {
  // The file is to blame neither when memory ran out, nor when it holds another text whose name happens to be the
  // same. It stays.
  if (status.code() == ErrorCode::kOutOfMemory || status.code() == ErrorCode::kMismatch) return;
  const std::lock_guard files_lock(files_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (index_.find(file_name) == nullptr) return;  // evicted meanwhile, or seen by somebody else
    index_.erase(file_name);
    if (status.code() == ErrorCode::kIo || status.code() == ErrorCode::kNotFound) ++stats_.failures;
  }
  if (status.code() == ErrorCode::kNotFound) return;
  const bool moved = directory_->quarantine(file_name).ok();
  const std::lock_guard lock(mutex_);
  ++(moved ? stats_.quarantined : stats_.failures);
}

// --- Handing over.

void FileTier::write_behind(std::string_view name_space, const KvCacheEntry& entry) {
  if (entry.length() == 0) return;
  try {
    hand_over(identity_of(name_space), entry);
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    count_loss(1, Status(ErrorCode::kOutOfMemory, {}));  // no words: there is no memory for them
  }
  wake_.notify_one();
}

void FileTier::hand_over(const KvPageIdentity& identity, const KvCacheEntry& entry) {
  const TokenSpan ids = entry.tokens();
  PageNamer namer(options_.name_bits);
  PageName before = namer.first(identity);
  PageName before_that;
  std::shared_ptr<const Tokens> tokens;
  for (size_t position = 0; position < ids.size(); position += kPagePositions) {
    const TokenSpan page_ids = ids.subspan(position, std::min(kPagePositions, ids.size() - position));
    const PageName name = namer.next(before, page_ids);
    bool stored = false;
    {
      const std::lock_guard lock(mutex_);
      if (clock_.steady_ns() < back_off_until_ns_) {
        count_loss(KvLayout::pages_for(ids.size() - position), Status(ErrorCode::kIo, stats_.disabled_reason));
        return;
      }
      stats_.disabled_reason.clear();
      stored = index_.best_match(before, page_ids).n_rows == page_ids.size();
    }
    if (!stored) {
      if (tokens == nullptr) tokens = std::make_shared<const Tokens>(ids.begin(), ids.end());
      const KvPage& page = entry.pages()[position / kPagePositions];
      std::string continues = position > 0 ? page_file_name(before_that, before) : "";
      if (!enqueue({identity, std::move(continues), before, name, tokens, position + page_ids.size(), page})) {
        const std::lock_guard lock(mutex_);
        count_loss(KvLayout::pages_for(ids.size() - position),
                   Status(ErrorCode::kLimitExceeded, "cold tier: too much waits already"));
        return;
      }
    }
    before_that = std::exchange(before, name);
  }
}

// False when there is no room. A page that waits already is not added again, and one that holds the beginning of the
// same page is replaced.
bool FileTier::enqueue(Waiting waiting) {
  const std::lock_guard lock(mutex_);
  const TokenSpan ids = waiting.page_ids();
  for (Waiting& other : queue_) {
    if (other.before != waiting.before || other.identity != waiting.identity) continue;
    const TokenSpan known = other.page_ids();
    const size_t n = std::min(known.size(), ids.size());
    if (!std::equal(known.begin(), known.begin() + static_cast<ptrdiff_t>(n), ids.begin())) continue;
    if (known.size() < ids.size()) std::swap(other, waiting);
    return true;
  }
  if (queue_.size() >= max_waiting_) return false;
  queue_.push_back(std::move(waiting));
  return true;
}

// The pool needs memory more than the disk needs copies. Only when nothing waits is the page that is being copied
// waited for; whoever copies it is no thread of the idle class, so that is the time of a copy.
bool FileTier::let_go() {
  std::deque<Waiting> queue;
  std::unique_lock lock(mutex_);
  queue.swap(queue_);
  if (queue.empty() && !copying_) return false;
  if (queue.empty()) {
    copied_.wait(lock, [this] { return !copying_; });
  } else {
    count_loss(queue.size(), Status(ErrorCode::kOutOfMemory, {}));
  }
  lock.unlock();
  return true;
}

// REQUIRES: mutex_.
void FileTier::count_loss(size_t n_pages, Status why) noexcept {
  stats_.dropped += n_pages;
  if (first_loss_.ok()) first_loss_ = std::move(why);
}

Status FileTier::clear(std::string_view name_space) {
  try {
    const Sha256Digest digest = digest_of_namespace(name_space);
    const std::lock_guard files_lock(files_mutex_);
    std::vector<std::string> file_names;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(queue_, [&](const Waiting& waiting) { return waiting.identity.name_space == digest; });
      file_names = index_.files_of(digest);
    }
    Status status;
    for (const std::string& file_name : file_names) {
      if (Status removed = remove_file(file_name); !removed.ok()) status = std::move(removed);
    }
    if (Status removed = directory_->clear_quarantine(); !removed.ok()) status = std::move(removed);
    if (Status synced = directory_->sync(); !synced.ok()) status = std::move(synced);
    return status;
  } catch (const std::bad_alloc&) {
    return no_heap();
  }
}

FileTierStats FileTier::stats() const {
  const std::lock_guard lock(mutex_);
  FileTierStats stats = stats_;
  stats.pages = index_.pages();
  stats.bytes = index_.bytes();
  stats.waiting = queue_.size();
  stats.waiting_bytes = queue_.size() * uint64_t{pool_.layout().page_bytes()};
  return stats;
}

}  // namespace ibid
