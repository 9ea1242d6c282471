#include "cache/tier/two_tiers.h"

#include <algorithm>

#include "cache/tier/record_tree.h"

namespace ibid {

Result<KvPage> TwoTierRecords::read_page(const TierRecord& record) {
  Result<KvPage> page = near_->read_page(record);
  return page.status().code() == ErrorCode::kNotFound ? far_->read_page(record) : std::move(page);
}

Result<StateSnapshot> TwoTierRecords::read_state(const TierRecord& record) {
  Result<StateSnapshot> state = near_->read_state(record);
  return state.status().code() == ErrorCode::kNotFound ? far_->read_state(record) : std::move(state);
}

size_t TwoTierRecords::extend(const Sha256Digest& name_space, TokenSpan ids, KvCacheEntry& entry,
                              std::vector<RecordRange>& used) {
  const size_t n_near = near_->extend(name_space, ids, entry, used);
  return entry.length() == ids.size() ? n_near : n_near + far_->extend(name_space, ids, entry, used);
}

Result<TierRecords::Removed> TwoTierRecords::remove_wrong(const TierRecord& record) {
  TRY_ASSIGN(Removed removed, near_->remove_wrong(record));
  TRY_ASSIGN(const Removed far, far_->remove_wrong(record));
  if (far.writer != KvWriterId{}) removed.writer = far.writer;
  return removed;
}

Result<RecordList> TwoTierRecords::list() { return near_->list(); }

size_t TwoTiers::extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) {
  const size_t n_near = near_->extend(name_space, ids, entry, limits);
  if (entry.length() == ids.size()) return n_near;
  const size_t n_far = far_->extend(name_space, ids, entry, limits);
  if (n_far > 0) near_->write_behind(name_space, entry);
  return n_near + n_far;
}

void TwoTiers::write_behind(std::string_view name_space, const KvCacheEntry& entry) {
  near_->write_behind(name_space, entry);
  far_->write_behind(name_space, entry);
}

Status TwoTiers::flush(int64_t limit_ns) {
  const int64_t begin_ns = clock_.steady_ns();
  Status near = near_->flush(limit_ns);
  const int64_t left_ns = limit_ns == kNoLimit ? kNoLimit : limit_ns - (clock_.steady_ns() - begin_ns);
  Status far = far_->flush(std::max<int64_t>(left_ns, 0));
  return near.ok() ? far : near;
}

Status TwoTiers::clear(std::string_view name_space) {
  Status near = near_->clear(name_space), far = far_->clear(name_space);
  return near.ok() ? far : near;
}

KvTierStats TwoTiers::stats() const {
  KvTierStats sum = near_->stats();
  const KvTierStats far = far_->stats();
  constexpr size_t KvTierStats::*kCounters[] = {
      &KvTierStats::hits,          &KvTierStats::misses,  &KvTierStats::tokens_read, &KvTierStats::pages_read,
      &KvTierStats::pages_written, &KvTierStats::pages,   &KvTierStats::states_read, &KvTierStats::states_written,
      &KvTierStats::states,        &KvTierStats::evicted, &KvTierStats::quarantined, &KvTierStats::failures,
      &KvTierStats::dropped,       &KvTierStats::waiting};
  for (size_t KvTierStats::*const counter : kCounters) sum.*counter += far.*counter;
  sum.bytes += far.bytes;
  sum.waiting_bytes += far.waiting_bytes;
  sum.bytes_read += far.bytes_read;
  sum.bytes_written += far.bytes_written;
  sum.read_ns += far.read_ns;
  if (sum.disabled_reason.empty()) sum.disabled_reason = far.disabled_reason;
  if (sum.other_versions.empty()) sum.other_versions = far.other_versions;
  return sum;
}

}  // namespace ibid
