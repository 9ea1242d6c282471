#include "cache/tier/file_tier.h"

#include <algorithm>
#include <functional>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "cache/tier/record_tree.h"

namespace ibid {

SecondReader::SecondReader() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

void SecondReader::share(const std::function<void()>& read) {
  bool offers = false;
  {
    const std::lock_guard lock(mutex_);
    offers = state_ == State::kFree;
    if (offers) {
      state_ = State::kOffered;
      read_ = &read;
    }
  }
  if (offers) offered_.notify_one();
  read();
  if (!offers) return;
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return state_ != State::kReading; });
  state_ = State::kFree;
  read_ = nullptr;
}

void SecondReader::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (offered_.wait(lock, stop, [this] { return state_ == State::kOffered; })) {
    state_ = State::kReading;
    const std::function<void()>& read = *read_;
    lock.unlock();
    read();
    lock.lock();
    state_ = State::kDone;
    done_.notify_all();
  }
}

namespace {

// Minimum number of files for which the second reading thread is used. For fewer files waking it costs too much.
constexpr size_t kManyPages = 4;

}  // namespace

Result<std::unique_ptr<FileTier>> FileTier::open(FileTierOptions options, KvPagePool& pool, FileOps& files,
                                                 Clock& clock, std::unique_ptr<IdleTime> idle, PageNameRule name_rule) {
  return guarded([&]() -> Result<std::unique_ptr<FileTier>> {
    if (idle == nullptr) idle = make_idle_time();
    PageFilesOptions kept{std::move(options.directory),
                          options.fingerprint.numerics_version(),
                          options.writer,
                          options.budget_bytes,
                          options.durable,
                          name_rule};
    TRY_ASSIGN(std::unique_ptr<PageFiles> opened, PageFiles::open(std::move(kept), pool.layout(), files, clock));
    std::unique_ptr<FileTier> tier(new FileTier(std::move(options.fingerprint), pool, clock, std::move(opened)));
    try {
      tier->writing_ = std::make_unique<WriteBehind>(
          WriteBehindOptions{options.waiting_budget_bytes, options.eager_bytes_per_s, name_rule}, pool, *tier->files_,
          clock, std::move(idle));
    } catch (const std::system_error& error) {
      return Status(ErrorCode::kIo, std::string("cold tier: cannot start a thread: ") + error.what());
    }
    return tier;
  });
}

size_t FileTier::extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) {
  CHECK_LE(entry.length(), ids.size());
  size_t n_added = 0;
  try {
    ReadTimer timer(limits, clock_);
    const Result<Fingerprint> fingerprint = fingerprint_.get(limits.stop, timer.left());
    if (fingerprint.ok() && !timer.is_over()) {
      n_added = read_into({*fingerprint, digest_of_namespace(name_space)}, ids, entry, timer, limits.used);
    }
  } catch (const std::bad_alloc&) {
    // No cleanup is needed: `entry` changes only in the last step, which adopts the pages.
  }
  ++(n_added > 0 ? n_hits_ : n_misses_);
  n_tokens_read_ += n_added;
  return n_added;
}

void FileTier::Reading::cut(size_t n_tokens) {
  const size_t first_page = length / kPagePositions;
  const size_t n = KvLayout::pages_for(n_tokens) - first_page;
  found.resize(n);
  pages.resize(n);
  if (n > 0) found.back().n_used = std::min(found.back().n_used, n_tokens);
}

namespace {

// Appends the pages and the state that were used whole. state: may be null.
void report_used(std::span<const PageFiles::Found> pages, const PageFiles::FoundState* state,
                 std::vector<RecordRange>& used) {
  for (const PageFiles::Found& page : pages) {
    const size_t begin = page.before.length;
    if (page.n_used == begin + page.file.n_rows) used.push_back({KvRecordKind::kPage, begin, page.n_used});
  }
  if (state == nullptr || state->n_used < state->file.position + state->file.n_rows) return;
  used.push_back({KvRecordKind::kState, state->file.position, state->n_used});
}

}  // namespace

size_t FileTier::read_into(const KvPageIdentity& identity, TokenSpan ids, KvCacheEntry& entry, ReadTimer& timer,
                           std::vector<RecordRange>* used, bool is_audit) {
  const size_t length = entry.length();
  const bool is_recurrent = pool_.layout().n_states() > 0;
  Reading reading{identity, ids, timer, length, files_->find(identity, ids, length), {}};
  if (is_recurrent) {
    // A model with recurrent layers can resume only at a stored state. So read only the pages before the state that
    // reaches furthest, and none if there is no state.
    const size_t end = reading.end(reading.found.size());
    reading.states = files_->find_states(identity, ids.first(end), length);
    if (reading.states.empty()) return 0;
    reading.cut(reading.states.front().reach(end));
  }
  read_all(reading);
  std::vector<StateSnapshot> states;
  const PageFiles::FoundState* const state = is_recurrent ? read_deepest_state(reading, states) : nullptr;
  if (is_recurrent && state == nullptr) return 0;
  const size_t n_pages = reading.pages.size();
  if (n_pages == 0) return 0;
  const PageFiles::Found last = reading.found[n_pages - 1];
  const TokenSpan more = ids.subspan(length, last.n_used - length);
  if (used != nullptr) report_used(reading.found, state, *used);
  if (!entry.adopt_more(std::move(reading.pages), more, std::move(states)).ok()) return 0;
  if (is_audit) return entry.length() - length;
  n_pages_read_ += n_pages;
  n_states_read_ += state != nullptr ? 1 : 0;
  // Touching the last page suffices: a page counts as used whenever a page that continues it is used.
  files_->touch(last.file.file_name);
  if (state != nullptr) files_->touch(state->file.file_name);
  return entry.length() - length;
}

// Reads the stored state that reaches furthest within the pages that were read, and drops the pages after it. Returns
// null if no state is usable.
const PageFiles::FoundState* FileTier::read_deepest_state(Reading& reading, std::vector<StateSnapshot>& states) {
  const size_t end = reading.end(reading.pages.size());
  std::ranges::stable_sort(reading.states, std::ranges::greater(),
                           [&](const PageFiles::FoundState& state) { return state.reach(end); });
  for (const PageFiles::FoundState& found : reading.states) {
    if (found.reach(end) <= reading.length || reading.timer.is_over()) return nullptr;
    if (found.file.position > end) continue;
    Result<StateSnapshot> state = files_->read_state(found, pool_, reading.identity, reading.ids, end);
    if (!state.ok()) {
      files_->give_up(found.file.file_name, state.status());
      continue;
    }
    reading.cut(found.reach(end));
    states.push_back(*std::move(state));
    return &found;
  }
  return nullptr;
}

// Reads all pages, and keeps those before the first page that could not be read.
void FileTier::read_all(Reading& reading) {
  if (reading.found.size() >= kManyPages) {
    second_reader_.share([this, &reading] { read_some(reading); });
  } else {
    read_some(reading);
  }
  size_t n_sound = 0;
  while (n_sound < reading.found.size() && reading.statuses[n_sound].ok() && reading.pages[n_sound]) ++n_sound;
  if (n_sound < reading.found.size() && !reading.statuses[n_sound].ok()) {
    files_->give_up(reading.found[n_sound].file.file_name, reading.statuses[n_sound]);
  }
  reading.pages.resize(n_sound);
}

// Reads pages, each of which one thread takes, until all are taken, one fails, or a limit is reached. Two threads may
// run this function at once.
void FileTier::read_some(Reading& reading) noexcept {
  const size_t n = reading.found.size();
  std::vector<std::byte> scratch;
  for (size_t i = reading.next++; i < n; i = reading.next++) {
    if (reading.timer.is_over()) {
      reading.next = n;
      return;
    }
    reading.statuses[i] = guarded([&] { return read_page(reading, i, scratch); });
    if (!reading.statuses[i].ok()) reading.next = n;  // stops both threads, because no later page can be used
  }
}

// Reads one page into new memory of the pool. The page becomes visible to others only after it was verified.
Status FileTier::read_page(Reading& reading, size_t i, std::vector<std::byte>& scratch) {
  TRY_ASSIGN(KvPage page, pool_.allocate());
  TRY_ASSIGN(const KvPageParts parts,
             files_->read(reading.found[i], reading.identity, reading.ids, scratch, page.parts()));
  if (parts == KvPageParts::kFirst) pool_.drop_window(page);
  // The window part of this page is needed only if reading stops before the last page found, so that the sequence
  // resumes earlier. So make the part evictable, but keep it while there is room.
  if (reading.is_behind(pool_.layout(), i)) pool_.offer_windows({&page, 1});
  reading.pages[i] = std::move(page);
  reading.timer.page_came();
  return {};
}

void FileTier::write_behind(std::string_view name_space, const KvCacheEntry& entry) {
  if (entry.length() == 0) return;
  Status status = guarded([&]() -> Status {
    TRY_ASSIGN(const Fingerprint fingerprint, fingerprint_.get({}, LaterFingerprint::kBrief));
    writing_->hand_over({fingerprint, digest_of_namespace(name_space)}, entry);
    return {};
  });
  if (!status.ok()) writing_->lose(KvLayout::pages_for(entry.length()), std::move(status));
}

Status FileTier::flush(int64_t limit_ns) { return writing_->flush(limit_ns); }

Status FileTier::clear(std::string_view name_space) {
  return guarded([&] {
    const Sha256Digest digest = digest_of_namespace(name_space);
    const std::unique_lock pen = files_->take_pen();  // while this lock is held, no record of the namespace is written
    writing_->forget(digest);
    return files_->clear(digest);
  });
}

// --- Single records

Result<KvPage> FileTier::read_page(const TierRecord& record) {
  TRY_ASSIGN(const Fingerprint fingerprint, fingerprint_.get());
  const KvPageIdentity identity{fingerprint, record.name_space};
  TRY_ASSIGN(const PageFiles::Found found, files_->find_page(identity, record));
  TRY_ASSIGN(KvPage page, pool_.allocate());
  std::vector<std::byte> scratch;
  const Result<KvPageParts> parts = files_->read(found, identity, record.ids(), scratch, page.parts());
  if (!parts.ok()) {
    files_->give_up(found.file.file_name, parts.status());
    return parts.status();
  }
  if (*parts == KvPageParts::kFirst) pool_.drop_window(page);
  return page;
}

Result<StateSnapshot> FileTier::read_state(const TierRecord& record) {
  TRY_ASSIGN(const Fingerprint fingerprint, fingerprint_.get());
  const KvPageIdentity identity{fingerprint, record.name_space};
  TRY_ASSIGN(const PageFiles::FoundState found, files_->find_state(identity, record));
  Result<StateSnapshot> state = files_->read_state(found, pool_, identity, record.ids(), record.n_tokens);
  if (!state.ok()) files_->give_up(found.file.file_name, state.status());
  return state;
}

size_t FileTier::extend(const Sha256Digest& name_space, TokenSpan ids, KvCacheEntry& entry,
                        std::vector<RecordRange>& used) {
  const Result<Fingerprint> fingerprint = fingerprint_.get();
  if (!fingerprint.ok()) return 0;
  const ReadLimits no_limits;
  ReadTimer timer(no_limits, clock_);
  return read_into({*fingerprint, name_space}, ids, entry, timer, &used, true);
}

Result<TierRecords::Removed> FileTier::remove_wrong(const TierRecord& record) {
  TRY_ASSIGN(const Fingerprint fingerprint, fingerprint_.get());
  const std::unique_lock pen = files_->take_pen();  // while this lock is held, no record is written
  writing_->forget(record.name_space);
  return files_->remove_wrong({fingerprint, record.name_space}, record);
}

Result<RecordList> FileTier::list() {
  TRY_ASSIGN(const Fingerprint fingerprint, fingerprint_.get());
  return files_->list(fingerprint);
}

KvTierStats FileTier::stats() const {
  KvTierStats stats;
  stats.hits = n_hits_;
  stats.misses = n_misses_;
  stats.tokens_read = n_tokens_read_;
  stats.pages_read = n_pages_read_;
  stats.states_read = n_states_read_;
  files_->add_to(stats);
  writing_->add_to(stats);
  return stats;
}

}  // namespace ibid
