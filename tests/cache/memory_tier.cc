#include "tests/cache/memory_tier.h"

#include <algorithm>
#include <new>

#include "base/token_prefix.h"

namespace ibid {

namespace {

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
  std::erase_if(records_, [&](const auto& record) { return record.second.name_space == name_space; });
  return {};
}

bool RecordServer::has(const PageName& before, TokenSpan page_ids) const {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = records_.equal_range(before);
  return std::any_of(begin, end, [&](const auto& record) {
    return common_prefix_length(record.second.page_ids, page_ids) == page_ids.size();
  });
}

size_t RecordServer::size() const {
  const std::lock_guard lock(mutex_);
  return records_.size();
}

void RecordServer::damage(size_t first_position) {
  const std::lock_guard lock(mutex_);
  for (auto& [before, record] : records_) {
    if (parse_kv_page_header(record.bytes)->first_position == first_position) record.bytes.back() ^= std::byte{1};
  }
}

MemoryTier::MemoryTier(const Fingerprint& fingerprint, RecordServer& server, KvPagePool& pool, Clock& clock,
                       std::unique_ptr<IdleTime> idle)
    : fingerprint_(fingerprint),
      server_(server),
      pool_(pool),
      clock_(clock),
      writing_(0, first_half, pool, *this, clock, std::move(idle)) {}

size_t MemoryTier::extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) try {
  const KvPageIdentity identity = identity_of(name_space);
  const size_t length = entry.length();
  PageNamer namer(first_half);
  PageName before = namer.first(identity);
  std::vector<KvPage> pages;
  size_t n_used = length, position = 0;
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
    if (!decode_kv_page(record->bytes, pool_.layout(), identity, ids.first(end), page->parts()).ok()) break;
    pages.push_back(*std::move(page));
    n_used = position = end;
    if (position % kPagePositions != 0) break;
    before = namer.next(before, wanted);
  }
  const size_t n_pages = pages.size();
  const bool added =
      n_pages > 0 && entry.adopt_more(std::move(pages), ids.subspan(length, n_used - length)).ok();
  ++(added ? n_hits_ : n_misses_);
  if (!added) return 0;
  n_pages_read_ += n_pages;
  n_tokens_read_ += n_used - length;
  return n_used - length;
} catch (const std::bad_alloc&) {
  ++n_misses_;
  return 0;
}

void MemoryTier::write_behind(std::string_view name_space, const KvCacheEntry& entry) {
  writing_.hand_over(identity_of(name_space), entry);
}

Status MemoryTier::write(const WaitingPage& page, std::span<const std::byte> rows) {
  RecordServer::Record record{page.identity.name_space, Tokens(page.page_ids().begin(), page.page_ids().end()),
                              encode_kv_page_header(pool_.layout(), page.identity, page.ids(), rows.data())};
  record.bytes.insert(record.bytes.end(), rows.begin(), rows.end());
  TRY(server_.put(page.before, std::move(record)));
  ++n_written_;
  return {};
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
  stats.pages_written = n_written_;
  stats.pages = server_.size();
  stats.failures = n_failures_;
  writing_.add_to(stats);
  return stats;
}

}  // namespace ibid
