#include "cache/tier/record_tier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/token_prefix.h"
#include "cache/tier/kv_page_file.h"
#include "cache/tier/kv_state_file.h"

namespace ibid {

namespace {

// Reads a block from the bytes of a whole record, whose size was checked.
auto reader_of(std::span<const std::byte> record) {
  return [record](uint64_t offset, std::span<std::byte> block) {
    std::memcpy(block.data(), record.data() + offset, block.size());
    return Status();
  };
}

// Number of n pages, the first with position `length`, that are before the window of a sequence that ends at `end`.
size_t n_before_window(const KvLayout& layout, size_t end, size_t length, size_t n) {
  const size_t first = layout.first_window_page(end), begin = length / kPagePositions;
  return std::min(n, first - std::min(first, begin));
}

Status check_size(const KvRecordHeader& header, std::span<const std::byte> record) {
  if (header.record_bytes == record.size()) return {};
  return {header.record_bytes > record.size() ? ErrorCode::kTruncated : ErrorCode::kBadHeader,
          "KV record: has " + std::to_string(record.size()) + " bytes, its header says " +
              std::to_string(header.record_bytes)};
}

}  // namespace

size_t most_record_bytes(const KvLayout& layout) {
  const size_t page_bytes = kv_page_record_bytes(layout, kPagePositions);
  if (layout.n_states() == 0) return page_bytes;
  return std::max(page_bytes, kv_state_record_bytes(layout, 2 * kPagePositions - 1, kPagePositions));
}

RecordTier::RecordTier(RecordTierOptions options, std::shared_ptr<RecordStore> store, KvPagePool& pool, Clock& clock,
                       std::unique_ptr<IdleTime> idle)
    : fingerprint_(std::move(options.fingerprint)),
      writer_(options.writer),
      store_(std::move(store)),
      pool_(pool),
      clock_(clock),
      known_(clock),
      known_states_(clock),
      epochs_(*store_, clock),
      writing_({options.waiting_budget_bytes, options.eager_bytes_per_s, first_half, kBackOffNs}, pool, *this, clock,
               idle != nullptr ? std::move(idle) : make_idle_time()) {}

// --- Reading

size_t RecordTier::extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) {
  CHECK_LE(entry.length(), ids.size());
  const int64_t begin_ns = clock_.steady_ns();
  // An error needs no cleanup: only the last step, adopting the pages, changes the entry.
  const Result<size_t> added = guarded([&] { return read_into(digest_of_namespace(name_space), ids, entry, limits); });
  if (added.status().code() == ErrorCode::kIo) ++n_failures_;
  const size_t n_added = added.ok() ? *added : 0;
  ++(n_added > 0 ? n_hits_ : n_misses_);
  n_tokens_read_ += n_added;
  read_ns_ += clock_.steady_ns() - begin_ns;
  return n_added;
}

Result<size_t> RecordTier::read_into(const Sha256Digest& name_space, TokenSpan ids, KvCacheEntry& entry,
                                     const ReadLimits& limits, bool is_audit) {
  ReadTimer timer(limits, clock_);
  if (timer.is_over()) return size_t{0};
  TRY_ASSIGN(const Fingerprint fingerprint, fingerprint_.get(limits.stop, timer.left()));
  TRY_ASSIGN(const uint64_t epoch, epoch_of(epochs_.current(name_space, timer)));
  const size_t length = entry.length();
  Reading reading{{fingerprint, name_space, epoch}, ids, length, timer, {}, {}, length};
  PageNamer namer(first_half);
  reading.texts.push_back(namer.first(reading.identity));
  while (reading.texts.back().length + kPagePositions <= ids.size()) {
    const TextName& before = reading.texts.back();
    reading.texts.push_back(namer.next(before, ids.subspan(before.length, kPagePositions)));
  }
  // Pages that were read before an error are used.
  const Status status = read_pages(reading);
  if (status.code() == ErrorCode::kIo) ++n_failures_;
  std::vector<StateSnapshot> states;
  if (pool_.layout().n_states() > 0) {
    TRY_ASSIGN(std::optional<StateSnapshot> state, read_state(reading));
    if (!state) return size_t{0};
    reading.end = state->end();
    states.push_back(*std::move(state));
  }
  if (reading.end == length) return size_t{0};
  reading.pages.resize(KvLayout::pages_for(reading.end) - length / kPagePositions);
  if (!is_audit) {
    n_pages_read_ += reading.pages.size();
    n_states_read_ += states.size();
  }
  for (const RecordRange& range : reading.used) {
    if (limits.used != nullptr && range.n_tokens <= reading.end) limits.used->push_back(range);
  }
  TRY(entry.adopt_more(std::move(reading.pages), ids.subspan(length, reading.end - length), std::move(states)));
  return entry.length() - length;
}

Result<uint64_t> RecordTier::epoch_of(Result<StoreEpochs::Current> current) {
  if (!current.ok()) return current.status();
  if (current->was_cleared) forget_all();
  return current->epoch;
}

// The names of the wanted pages are known in advance, so their records are asked for in one call.
Status RecordTier::read_pages(Reading& reading) {
  const size_t first = reading.length / kPagePositions;
  std::vector<PageName> keys;
  for (size_t i = first + 1; i < reading.texts.size(); ++i) keys.push_back(reading.key(reading.texts[i].name));
  size_t n_sound = 0;
  TRY(store_->get(keys, reading.timer, [&](size_t i, std::span<const std::byte> record) {
    const TextName& before = reading.texts[first + i];
    if (!add_page(reading, before, reading.ids.subspan(before.length, kPagePositions), record)) return false;
    known_.add(reading.texts[first + i + 1].name, reading.parts);
    reading.used.push_back({KvRecordKind::kPage, before.length, before.length + kPagePositions});
    ++n_sound;
    return !reading.timer.is_over();
  }));
  if (reading.timer.is_over()) return {};
  if (n_sound < keys.size()) {
    const TextName& last = reading.texts.back();
    if (last.length < reading.ids.size()) {
      known_.forget(PageNamer(first_half).next(last, reading.ids.subspan(last.length)).name);
    }
    // A store that lacks a known page may have been emptied, and no look-up finds the pages after the missing one.
    if (known_.has(reading.texts[first + n_sound + 1].name, KvPageParts::kFirst)) known_states_.clear();
    for (size_t i = first + n_sound + 1; i < reading.texts.size(); ++i) known_.forget(reading.texts[i].name);
    quarantine(reading, reading.texts[first + n_sound + 1].name);
  }
  return reading.end < reading.ids.size() ? read_page_in_part(reading) : Status();
}

// Reads the page after those that were read, if its first tokens are wanted.
Status RecordTier::read_page_in_part(Reading& reading) {
  const size_t begin = std::max(reading.end, reading.length) / kPagePositions * kPagePositions;
  const TokenSpan wanted = reading.ids.subspan(begin, std::min(kPagePositions, reading.ids.size() - begin));
  const TextName& before = reading.texts[begin / kPagePositions];
  TRY_ASSIGN(const std::vector<RecordTail> found, tails(reading, before));
  const RecordTail* best = nullptr;
  size_t n_best = 0;
  for (const RecordTail& tail : found) {
    if (tail.kind != KvRecordKind::kPage) continue;
    const size_t n = common_prefix_length(tail.page_ids, wanted);
    if (n > n_best) best = &tail, n_best = n;
  }
  if (best == nullptr) known_.forget(PageNamer(first_half).next(before, wanted).name);
  if (best == nullptr || begin + n_best <= reading.end) return {};
  const PageName keys[] = {reading.key(best->name)};
  TRY(store_->get(keys, reading.timer, [&](size_t, std::span<const std::byte> record) {
    if (!add_page(reading, before, wanted.first(n_best), record)) return false;
    known_.add(best->name, reading.parts);
    if (n_best == best->page_ids.size()) reading.used.push_back({KvRecordKind::kPage, begin, begin + n_best});
    return false;
  }));
  quarantine(reading, best->name);
  return {};
}

// Adds the page to the pages that were read. Returns false if it is not usable; reading.status says why.
bool RecordTier::add_page(Reading& reading, const TextName& before, TokenSpan page_ids,
                          std::span<const std::byte> record) {
  bytes_read_ += record.size();
  reading.status = guarded([&] { return decode_page(reading, before, page_ids, record); });
  if (!reading.status.ok()) return false;
  reading.end = before.length + page_ids.size();
  const size_t n = n_before_window(pool_.layout(), reading.end, reading.length, reading.pages.size());
  pool_.offer_windows(std::span(reading.pages).first(n));
  reading.timer.page_came();
  return true;
}

Status RecordTier::decode_page(Reading& reading, const TextName& before, TokenSpan page_ids,
                               std::span<const std::byte> record) {
  const KvLayout& layout = pool_.layout();
  TRY_ASSIGN(const KvPageCheck check,
             KvPageCheck::open(record, layout, reading.identity, before.followed_by(page_ids)));
  TRY(check_size(check.header(), record));
  TRY_ASSIGN(KvPage page, pool_.allocate());
  TRY(check.read_blocks(layout, page.parts(), reader_of(record)));
  reading.parts = check.parts();
  if (reading.parts == KvPageParts::kFirst) pool_.drop_window(page);
  reading.pages.push_back(std::move(page));
  return {};
}

Result<std::vector<RecordTail>> RecordTier::tails(Reading& reading, const TextName& before) {
  TRY_ASSIGN(const auto texts, store_->tails(reading.key(before.name), reading.timer));
  std::vector<RecordTail> found;
  for (const std::vector<std::byte>& bytes : std::span(texts).first(std::min(texts.size(), RecordStore::kMostTails))) {
    if (std::optional<RecordTail> tail = RecordTail::parse(bytes)) found.push_back(*std::move(tail));
  }
  return found;
}

// Returns the states within the pages that were read, the deepest first. Of earlier pages only those that may have a
// deeper state are searched.
Result<std::vector<RecordTier::Candidate>> RecordTier::find_states(Reading& reading) {
  std::vector<Candidate> found;
  size_t deepest = reading.length;
  for (size_t i = reading.end / kPagePositions;; --i) {
    const TextName& before = reading.texts[i];
    // A state of this page reaches less than two pages far with its rows.
    if (reading.timer.is_over() || before.length + 2 * kPagePositions - 1 <= deepest) break;
    const TokenSpan wanted =
        reading.ids.subspan(before.length, std::min(2 * kPagePositions, reading.end - before.length));
    TRY_ASSIGN(std::vector<RecordTail> tails_of_page, tails(reading, before));
    for (RecordTail& tail : tails_of_page) {
      const size_t n = common_prefix_length(tail.page_ids, wanted), reach = before.length + n;
      if (tail.kind != KvRecordKind::kState || n < tail.n_front || reach <= reading.length) continue;
      deepest = std::max(deepest, reach);
      const size_t position = before.length + tail.n_front;
      found.push_back({std::move(tail), &before, position, reach});
    }
    if (i == 0) break;
  }
  // If two states reach equally far, the state with fewer rows to recompute comes first.
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [](const Candidate& state) { return std::pair(state.reach, state.position); });
  return found;
}

// Returns the deepest sound state that reaches beyond the first `length` tokens.
Result<std::optional<StateSnapshot>> RecordTier::read_state(Reading& reading) {
  TRY_ASSIGN(const std::vector<Candidate> found, find_states(reading));
  std::optional<StateSnapshot> state;
  for (const Candidate& candidate : found) {
    if (reading.timer.is_over()) break;
    const PageName keys[] = {reading.key(candidate.tail.name)};
    TRY(store_->get(keys, reading.timer, [&](size_t, std::span<const std::byte> record) {
      bytes_read_ += record.size();
      Result<StateSnapshot> read = guarded([&] { return decode_state(reading, candidate, record); });
      reading.status = read.status();
      if (read.ok()) state = *std::move(read);
      return false;
    }));
    if (state) {
      const bool is_whole = candidate.reach - candidate.before->length == candidate.tail.page_ids.size();
      if (is_whole) reading.used.push_back({KvRecordKind::kState, candidate.position, candidate.reach});
      break;
    }
    quarantine(reading, candidate.tail.name);
  }
  return state;
}

Result<StateSnapshot> RecordTier::decode_state(const Reading& reading, const Candidate& found,
                                               std::span<const std::byte> record) const {
  const TextName& before = *found.before;
  const KvRecordText text = before.followed_by(reading.ids.subspan(before.length, found.reach - before.length));
  TRY_ASSIGN(const KvStateCheck check, KvStateCheck::open(record, pool_.layout(), reading.identity, text));
  TRY(check_size(check.header(), record));
  if (check.header().first_position != found.position) return kv_record_mismatch("position");
  return check.read_snapshot(pool_, found.reach - found.position, reader_of(record));
}

// A record of another version is sound: a node with another version of this program has written it.
void RecordTier::quarantine(Reading& reading, const PageName& name) {
  const ErrorCode why = std::exchange(reading.status, Status()).code();
  if (why == ErrorCode::kOk || why == ErrorCode::kOutOfMemory || why == ErrorCode::kUnsupportedVersion) return;
  ++n_quarantined_;
  known_.forget(name);
  known_states_.forget(name);
  // If the store cannot be reached now, the next look-up finds the record again.
  if (const Status removed = store_->remove(reading.key(name), reading.timer); !removed.ok()) ++n_failures_;
}

// --- Writing

void RecordTier::write_behind(std::string_view name_space, const KvCacheEntry& entry) {
  if (entry.length() == 0) return;
  Status status = guarded([&]() -> Status {
    TRY_ASSIGN(const Fingerprint fingerprint, fingerprint_.get({}, LaterFingerprint::kBrief));
    writing_.hand_over({fingerprint, digest_of_namespace(name_space)}, entry);
    return {};
  });
  if (!status.ok()) writing_.lose(KvLayout::pages_for(entry.length()), std::move(status));
}

template <typename Waiting>
Status RecordTier::put(const Waiting& waiting, RecordStore::Pieces pieces, uint64_t epoch, bool replaces,
                       const RecordTail& tail) {
  const TextName& before = waiting.before;
  if (wrong_.contains(waiting.name)) {
    return {ErrorCode::kLimitExceeded, "cold tier: a wrong record is not stored again by this process"};
  }
  // A look-up does not find a record without the page before it.
  if (before.length > 0 && !known_.has(before.name, KvPageParts::kFirst)) {
    return {ErrorCode::kLimitExceeded, "cold tier: the previous page is not stored"};
  }
  TRY(store_->put(name_in_epoch(waiting.name, epoch), pieces, replaces));
  for (const std::span<const std::byte> piece : pieces) bytes_written_ += piece.size();
  return store_->add_tail(name_in_epoch(before.name, epoch), tail.encode());
}

Status RecordTier::write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts parts) {
  if (known_.has(page.name, parts)) return {};  // the page was queued twice
  TRY_ASSIGN(const uint64_t epoch, epoch_of(epochs_.known(page.identity.name_space)));
  KvRecordInfo info = page.info(writer_);
  info.identity.epoch = epoch;
  const std::vector<std::byte> header = encode_kv_page_header(pool_.layout(), info, rows.data(), parts);
  const std::span<const std::byte> pieces[] = {header, kv_page_blocks(pool_.layout(), rows.data(), parts)};
  const TokenSpan ids = page.page_ids();
  const RecordTail tail{KvRecordKind::kPage, page.name, 0, Tokens(ids.begin(), ids.end())};
  // The record of another node may have both parts.
  TRY(put(page, pieces, epoch, parts == KvPageParts::kBoth, tail));
  known_.add(page.name, parts);
  ++n_pages_written_;
  return {};
}

Status RecordTier::write(const WaitingState& state, std::span<const std::byte> bytes) {
  TRY_ASSIGN(const uint64_t epoch, epoch_of(epochs_.known(state.identity.name_space)));
  KvRecordInfo info = state.info(writer_);
  info.identity.epoch = epoch;
  const std::vector<std::byte> header = encode_kv_state_header(pool_.layout(), info, state.snapshot, bytes.data());
  const auto [floats, rows] = kv_state_blocks(pool_.layout(), state.snapshot, bytes.data());
  const std::span<const std::byte> pieces[] = {header, floats, rows};
  const TokenSpan ids = state.page_ids();
  TRY(put(state, pieces, epoch, true, {KvRecordKind::kState, state.name, state.n_front(), {ids.begin(), ids.end()}}));
  known_states_.add(state.name);
  ++n_states_written_;
  return {};
}

Status RecordTier::clear(std::string_view name_space) {
  return guarded([&] {
    const Sha256Digest digest = digest_of_namespace(name_space);
    const std::unique_lock pen = take_pen();  // while this lock is held, no record is written
    writing_.forget(digest);
    forget_all();
    return epochs_.begin(digest);
  });
}

KvTierStats RecordTier::stats() const {
  KvTierStats stats;
  stats.hits = n_hits_;
  stats.misses = n_misses_;
  stats.tokens_read = n_tokens_read_;
  stats.pages_read = n_pages_read_;
  stats.states_read = n_states_read_;
  stats.pages_written = n_pages_written_;
  stats.states_written = n_states_written_;
  stats.quarantined = n_quarantined_;
  stats.failures = n_failures_;
  stats.bytes_read = bytes_read_;
  stats.bytes_written = bytes_written_;
  stats.read_ns = read_ns_;
  writing_.add_to(stats);
  return stats;
}

}  // namespace ibid
