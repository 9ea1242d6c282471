#include "tests/cache/memory_tier.h"

#include <algorithm>
#include <new>

#include "base/token_prefix.h"
#include "cache/tier/kv_state_file.h"

namespace ibid {

namespace {

// Returns how many of n pages, the first at position `length`, are outside the window of a sequence that ends at `end`.
size_t n_behind(const KvLayout& layout, size_t end, size_t length, size_t n) {
  const size_t first = layout.first_window_page(end), begin = length / kPagePositions;
  return std::min(n, first - std::min(first, begin));
}

Status cannot_be_reached() { return {ErrorCode::kIo, "the server cannot be reached"}; }

}  // namespace

Result<RecordServer::Record> RecordServer::get(const PageName& before, TokenSpan page_ids) const {
  if (fails) return cannot_be_reached();
  const std::lock_guard lock(mutex_);
  const Record* best = nullptr;
  size_t n_best = 0;
  const auto [begin, end] = records_.equal_range(before);
  for (auto at = begin; at != end; ++at) {
    const size_t n = common_prefix_length(at->second.page_ids, page_ids);
    if (n > n_best) best = &at->second, n_best = n;
  }
  if (best == nullptr) return Status(ErrorCode::kNotFound, "no such record");
  return *best;
}

Status RecordServer::put(const PageName& before, Record record) {
  if (fails) return cannot_be_reached();
  const std::lock_guard lock(mutex_);
  const auto added = records_.emplace(before, std::move(record));
  const TokenSpan ids = added->second.page_ids;
  for (auto at = records_.lower_bound(before); at != records_.upper_bound(before);) {
    const bool superseded = at != added && common_prefix_length(at->second.page_ids, ids) == at->second.page_ids.size();
    at = superseded ? records_.erase(at) : std::next(at);
  }
  return {};
}

Status RecordServer::erase(const Sha256Digest& name_space) {
  if (fails) return cannot_be_reached();
  const std::lock_guard lock(mutex_);
  for (auto* records : {&records_, &states_}) {
    std::erase_if(*records, [&](const auto& record) { return record.second.name_space == name_space; });
  }
  return {};
}

std::vector<RecordServer::Record> RecordServer::states(const PageName& before, TokenSpan page_ids) const {
  if (fails) return {};
  const std::lock_guard lock(mutex_);
  std::vector<Record> found;
  const auto [begin, end] = states_.equal_range(before);
  for (auto at = begin; at != end; ++at) {
    const Record& record = at->second;
    const size_t n = common_prefix_length(record.page_ids, page_ids);
    if (n >= record.position % kPagePositions) found.push_back(record);
  }
  return found;
}

Status RecordServer::put_state(const PageName& before, Record record) {
  if (fails) return cannot_be_reached();
  const std::lock_guard lock(mutex_);
  states_.emplace(before, std::move(record));
  return {};
}

bool RecordServer::has_state(const PageName& before, TokenSpan page_ids, size_t n_front) const {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = states_.equal_range(before);
  return std::any_of(begin, end, [&](const auto& record) {
    return record.second.position % kPagePositions == n_front &&
           common_prefix_length(record.second.page_ids, page_ids) == page_ids.size();
  });
}

bool RecordServer::has(const PageName& before, TokenSpan page_ids, KvPageParts parts) const {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = records_.equal_range(before);
  return std::any_of(begin, end, [&](const auto& record) {
    if (common_prefix_length(record.second.page_ids, page_ids) < page_ids.size()) return false;
    return parts == KvPageParts::kFirst || record.second.parts == KvPageParts::kBoth ||
           record.second.page_ids.size() > page_ids.size();
  });
}

size_t RecordServer::size() const {
  const std::lock_guard lock(mutex_);
  return records_.size();
}

void RecordServer::damage(size_t first_position) {
  const std::lock_guard lock(mutex_);
  for (auto& [before, record] : records_) {
    if (parse_kv_record_header(record.bytes)->first_position == first_position) record.bytes.back() ^= std::byte{1};
  }
}

MemoryTier::MemoryTier(const Fingerprint& fingerprint, RecordServer& server, KvPagePool& pool, Clock& clock,
                       std::unique_ptr<IdleTime> idle)
    : fingerprint_(fingerprint),
      server_(server),
      pool_(pool),
      clock_(clock),
      writing_(0, first_half, pool, *this, clock, std::move(idle)) {}

size_t MemoryTier::extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry,
                          const ReadLimits& limits) try {
  const KvPageIdentity identity = identity_of(name_space);
  const size_t length = entry.length();
  Found found = read_pages(identity, ids, length, limits);
  std::vector<StateSnapshot> states;
  if (pool_.layout().n_states() > 0) {
    std::optional<StateSnapshot> state = read_state(identity, ids.first(found.end), length);
    found.end = state ? state->end() : length;
    found.pages.resize(found.end > length ? KvLayout::pages_for(found.end) - length / kPagePositions : 0);
    if (state) states.push_back(*std::move(state));
  }
  const bool has_more = !found.pages.empty();
  const size_t n_pages = found.pages.size();
  const bool added =
      has_more &&
      entry.adopt_more(std::move(found.pages), ids.subspan(length, found.end - length), std::move(states)).ok() &&
      entry.length() > length;
  ++(added ? n_hits_ : n_misses_);
  if (!added) return 0;
  n_pages_read_ += n_pages;
  n_tokens_read_ += entry.length() - length;
  return entry.length() - length;
} catch (const std::bad_alloc&) {
  ++n_misses_;
  return 0;
}

MemoryTier::Found MemoryTier::read_pages(const KvPageIdentity& identity, TokenSpan ids, size_t length,
                                         const ReadLimits& limits) {
  Found found{{}, length};
  PageNamer namer(first_half);
  PageName before = namer.first(identity);
  size_t position = 0;
  for (; position + kPagePositions <= length; position += kPagePositions) {
    before = namer.next(before, ids.subspan(position, kPagePositions));
  }
  while (position < ids.size() && !limits.reached(clock_)) {
    const TokenSpan wanted = ids.subspan(position, std::min(kPagePositions, ids.size() - position));
    const Result<RecordServer::Record> record = server_.get(before, wanted);
    if (record.status().code() == ErrorCode::kIo) ++n_failures_;
    if (!record.ok()) break;
    const size_t end = position + common_prefix_length(record->page_ids, wanted);
    Result<KvPage> page = pool_.allocate();
    if (end <= length || !page.ok()) break;
    const auto read = decode_kv_page(record->bytes, pool_.layout(), identity, ids.first(end), page->parts());
    if (!read.ok()) break;
    if (read->parts == KvPageParts::kFirst) pool_.drop_window(*page);
    found.pages.push_back(*std::move(page));
    pool_.offer_windows(std::span(found.pages).first(n_behind(pool_.layout(), end, length, found.pages.size())));
    found.end = position = end;
    if (position % kPagePositions != 0) break;
    before = namer.next(before, wanted);
  }
  return found;
}

// Returns the state that reaches furthest within `ids`, and beyond the first `length` of them.
std::optional<StateSnapshot> MemoryTier::read_state(const KvPageIdentity& identity, TokenSpan ids, size_t length) {
  std::optional<StateSnapshot> best;
  PageNamer namer(first_half);
  PageName before = namer.first(identity);
  for (size_t begin = 0;; begin += kPagePositions) {
    const TokenSpan wanted = ids.subspan(begin, std::min(2 * kPagePositions, ids.size() - begin));
    for (const RecordServer::Record& record : server_.states(before, wanted)) {
      const size_t end = std::max(record.position, begin + common_prefix_length(record.page_ids, wanted));
      if (end <= std::max(length, best ? best->end() : 0)) continue;
      const auto check = KvStateCheck::open(record.bytes, pool_.layout(), identity, ids.first(end));
      if (!check.ok() || check->header().record_bytes != record.bytes.size()) continue;
      Result<StateSnapshot> read =
          check->read_snapshot(pool_, end - record.position, [&](uint64_t offset, std::span<std::byte> bytes) {
            std::copy_n(record.bytes.begin() + static_cast<ptrdiff_t>(offset), bytes.size(), bytes.begin());
            return Status();
          });
      if (read.ok()) best = *std::move(read);
    }
    if (ids.size() - begin < kPagePositions) break;
    before = namer.next(before, ids.subspan(begin, kPagePositions));
  }
  n_states_read_ += best ? 1 : 0;
  return best;
}

void MemoryTier::write_behind(std::string_view name_space, const KvCacheEntry& entry) {
  writing_.hand_over(identity_of(name_space), entry);
}

Status MemoryTier::write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts parts) {
  if (parts == KvPageParts::kFirst && server_.has(page.before, page.page_ids(), parts)) return {};
  RecordServer::Record record{page.identity.name_space, Tokens(page.page_ids().begin(), page.page_ids().end()),
                              encode_kv_page_header(pool_.layout(), page.identity, page.ids(), rows.data(), parts), 0,
                              parts};
  const auto blocks = kv_page_blocks(pool_.layout(), rows.data(), parts);
  record.bytes.insert(record.bytes.end(), blocks.begin(), blocks.end());
  TRY(server_.put(page.before, std::move(record)));
  ++n_written_;
  return {};
}

Status MemoryTier::write(const WaitingState& state, std::span<const std::byte> bytes) {
  RecordServer::Record record{
      state.identity.name_space, Tokens(state.page_ids().begin(), state.page_ids().end()),
      encode_kv_state_header(pool_.layout(), state.identity, state.ids(), state.snapshot, bytes.data()),
      state.snapshot.position};
  for (const auto& blocks : kv_state_blocks(pool_.layout(), state.snapshot, bytes.data())) {
    record.bytes.insert(record.bytes.end(), blocks.begin(), blocks.end());
  }
  return server_.put_state(state.before, std::move(record));
}

Status MemoryTier::clear(std::string_view name_space) {
  const Sha256Digest digest = digest_of_namespace(name_space);
  const std::unique_lock pen = take_pen();
  writing_.forget(digest);
  return server_.erase(digest);
}

KvTierStats MemoryTier::stats() const {
  KvTierStats stats;
  stats.hits = n_hits_;
  stats.misses = n_misses_;
  stats.tokens_read = n_tokens_read_;
  stats.pages_read = n_pages_read_;
  stats.states_read = n_states_read_;
  stats.pages_written = n_written_;
  stats.pages = server_.size();
  stats.failures = n_failures_;
  writing_.add_to(stats);
  return stats;
}

}  // namespace ibid
