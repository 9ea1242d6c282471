#include "runtime/session/prefix_publisher.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "cache/tier/kv_tier.h"
#include "runtime/audit/idle_audit.h"

namespace ibid {
namespace {

// Minimum number of tokens to read from the tier: computing fewer takes no longer than opening a file.
constexpr size_t kWorthReadingFromDisk = 16;
// A look-up in a tier may take as long even if computing takes less: the rate is a measurement, and a busy machine may
// pause a thread that long.
constexpr int64_t kLeastLookUpNs = 40'000'000;

// A look-up in a tier ends after half of the time that computing the missing tokens takes, so that a slow tier costs at
// most half of a prefill. If nothing is known about that time, only ReadLimits::kSilenceNs ends it.
int64_t deadline_of(const EngineState& engine, size_t n_missing) {
  const double ns = engine.prefill_row_ns() * static_cast<double>(n_missing) / 2;
  constexpr double kMostNs = 3600e9;  // an hour, so that the sum cannot overflow
  if (ns <= 0 || ns > kMostNs) return ReadLimits::kNoDeadline;
  return engine.clock().steady_ns() + std::max(kLeastLookUpNs, static_cast<int64_t>(ns));
}

}  // namespace

PrefixPublisher::Found PrefixPublisher::look_up(TokenSpan ids, const Foreign& own, std::stop_token stop) const {
  Found found{store().find_longest_prefix(name_space_, ids)};
  found.n_in_memory = found.length();
  found.tokens_compared = found.length();
  KvTier* tier = engine_->state().tier();
  if (tier != nullptr && ids.size() - found.length() >= kWorthReadingFromDisk) {
    EngineState& engine = engine_->state();
    const int64_t deadline_ns = deadline_of(engine, ids.size() - found.length());
    std::vector<RecordRange> used;
    IdleAudit* const audit = engine.audit();
    const ReadLimits limits{.stop = std::move(stop), .deadline_ns = deadline_ns, .used = audit ? &used : nullptr};
    found.tokens_compared += tier->extend(name_space_, ids, found.entry, limits);
    if (audit != nullptr) audit->offer(name_space_, ids, used);
  }
  if (own == nullptr) return found;
  PrefixHit foreign = store().find_longest_prefix(own->name(), ids);
  if (foreign.length() <= found.length()) return found;
  const size_t n_in_memory = foreign.length();
  return Found{std::move(foreign), n_in_memory, own, found.tokens_compared};
}

// Publishes the full pages of an entry that will grow. with_last_page: publishes a fork instead, which has a copy of
// the last page, so that the entry can append to its own last page without copying it.
bool PrefixPublisher::publish(KvCacheEntry& entry, bool with_last_page) const noexcept {
  if (with_last_page) {
    Result<KvCacheEntry> copy = entry.fork();
    const bool has_room = copy.ok() && copy->own_last_page().ok();
    if (has_room && store().insert(name_space_, *copy, {.extent = Extent::kAll}).ok()) return true;
  }
  insert(entry, nullptr, Extent::kFullPages);
  return false;
}

SharedPrompt PrefixPublisher::announce() const {
  SharedPrompt shared;
  shared.pending = &engine_->state().pending();
  shared.name_space = name_space_;
  shared.n_changes = engine_->state().pending().n_changes();
  shared.search = [this](TokenSpan ids) { return store().find_longest_prefix(name_space_, ids); };
  shared.publish = [this](KvCacheEntry& entry, bool with_last_page) { return publish(entry, with_last_page); };
  return shared;
}

void PrefixPublisher::insert(KvCacheEntry& entry, const Foreign& from, Extent extent,
                             IdleSequence* idle) const noexcept {
  if (entry.length() == 0) return;
  const Status status = store().insert(namespace_of(from), entry, {.extent = extent, .idle = idle});
  CHECK(status.ok() || status.code() == ErrorCode::kOutOfMemory) << status.message();
  // Writes only committed turns to disk, not data that a running turn may change.
  if (extent != Extent::kAll || from != nullptr || engine_->state().tier() == nullptr) return;
  engine_->state().tier()->write_behind(name_space_, entry);
}

void PrefixPublisher::make_idle(KvCacheEntry& entry, IdleSequence& idle, const Foreign& from) const noexcept {
  if (entry.length() == 0 || store().make_idle(entry, idle)) return;
  // `rest` no longer refers to a sequence in the store, because the namespace was cleared or heap memory ran out, so
  // insert the entry again. If there still is no memory, the entry keeps its pages until the next turn, which is
  // cheaper than prefilling again.
  if (store().insert(namespace_of(from), entry, {.idle = &idle}).ok()) (void)store().make_idle(entry, idle);
}

// Takes O(prompt), as does the search at the start of the turn.
void PrefixPublisher::publish_prompt(const KvCacheEntry& entry, size_t n_prompt, const PromptLogits& logits,
                                     size_t first_turn_boundary) const noexcept {
  if (logits != nullptr && n_prompt <= entry.length()) {
    // If the store has no room for the logits, an exact repeat of the prompt computes one token.
    (void)store().remember_logits(name_space_, entry.tokens().first(n_prompt), *logits);
  }
  if (first_turn_boundary < kPagePositions || first_turn_boundary > entry.length()) return;
  Result<KvCacheEntry> opening = entry.fork();
  if (!opening.ok()) return;
  if (opening->slice_to_at_most(first_turn_boundary) == 0) return;
  (void)store().insert(name_space_, *opening, {.extent = Extent::kFullPages, .retention = Retention::kPrefix});
}

}  // namespace ibid
