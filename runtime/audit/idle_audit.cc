#include "runtime/audit/idle_audit.h"

#include <chrono>
#include <new>
#include <utility>

#include "base/check.h"
#include "cache/store/lru_kv_cache_store.h"

namespace ibid {

namespace {

constexpr std::chrono::seconds kPatience{2};  // time to wait for an idle processor between two pieces

}  // namespace

IdleAudit::IdleAudit(EngineState& engine, TierRecords& records, IdleAuditOptions options)
    : engine_(engine),
      records_(records),
      share_(options.share),
      idle_(options.idle != nullptr ? std::move(options.idle) : make_idle_time()),
      generator_(options.seed ? *options.seed : std::random_device()()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {
  CHECK(share_ > 0);
}

IdleAudit::~IdleAudit() = default;

// True with a probability of share_. REQUIRES: mutex_ is locked.
bool IdleAudit::is_drawn() { return std::uniform_real_distribution<double>(0, 1)(generator_) < share_; }

void IdleAudit::offer(std::string_view name_space, TokenSpan ids, std::span<const RecordRange> used) noexcept try {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Tokens> tokens;  // shared by all records of the look-up
  for (const RecordRange& range : used) {
    if (!is_drawn()) continue;
    if (waiting_.size() >= kMostWaiting) {
      ++stats_.n_dropped;
      continue;
    }
    if (tokens == nullptr) tokens = std::make_shared<const Tokens>(ids.begin(), ids.end());
    waiting_.push_back({std::string(name_space), {range, digest_of_namespace(name_space), tokens}});
  }
  changed_.notify_all();
} catch (const std::bad_alloc&) {
  return;  // a record less in the sample
}

void IdleAudit::report_to(std::function<void(const std::string&)> report) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
}

IdleAudit::Stats IdleAudit::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.n_waiting = waiting_.size();
  return stats;
}

void IdleAudit::wait_until_done() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty(); });
}

void IdleAudit::run(const std::stop_token& stop) {
  const std::stop_callback interrupts(stop, [this] { idle_->interrupt(); });
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [this] { return !waiting_.empty(); });
    }
    if (stop.stop_requested()) return;
    idle_->wait();
    if (stop.stop_requested()) return;
    bool is_done = true;
    const Status status = guarded([&]() -> Status {
      is_done = audit(front(), stop);
      return {};
    });
    if (stop.stop_requested()) return;
    if (!status.ok()) record({.verdict = AuditVerdict::kSkipped});
    if (!is_done) continue;
    const std::lock_guard lock(mutex_);
    waiting_.pop_front();
    changed_.notify_all();
  }
}

// Only the thread of the audit removes elements, so the reference stays valid.
const IdleAudit::Waiting& IdleAudit::front() const {
  const std::lock_guard lock(mutex_);
  return waiting_.front();
}

// Returns false if no processor was idle for too long.
bool IdleAudit::audit(const Waiting& waiting, const std::stop_token& stop) {
  bool is_busy = false;
  RecordAudit audit(engine_, records_,
                    {.priority = Priority::kLow, .stop = stop, .piece_rows = kPagePositions, .before_piece = [&] {
                       is_busy = !idle_->wait_for(kPatience);
                       return !is_busy && !stop.stop_requested();
                     }});
  // The look-up has just read the pages before the record, so most of them are in memory.
  const size_t n_before = waiting.record.first_position;
  if (n_before > 0) {
    const TokenSpan before = waiting.record.ids().first(n_before);
    audit.begin_with(waiting.record.name_space, engine_.store().find_longest_prefix(waiting.name_space, before).entry);
  }
  const Result<AuditResult> result = audit.audit(waiting.record);
  if (stop.stop_requested() || is_busy) return false;
  if (!result.ok()) {
    record({.verdict = AuditVerdict::kSkipped});  // the scheduler cancels it if an answer needs its memory
    return true;
  }
  // Keys and values in memory may be computed from the wrong record, or cause the unexplained difference.
  const bool is_suspect = result->verdict == AuditVerdict::kWrong || result->verdict == AuditVerdict::kUnexplained;
  if (is_suspect) engine_.store().clear(waiting.name_space);
  record(*result);
  return true;
}

void IdleAudit::record(const AuditResult& result) {
  std::function<void(const std::string&)> report;
  {
    const std::lock_guard lock(mutex_);
    stats_.counts.add(result);
    report = report_;
  }
  if (!report) return;
  if (result.verdict == AuditVerdict::kWrong) {
    report("the audit removed a wrong record: " + describe_wrong(result) + "; " + result.removed.name);
  } else if (result.verdict == AuditVerdict::kUnexplained) {
    report(
        "the audit got other bits from what is in memory than from the first token on: the memory or the processor of "
        "this machine may be faulty");
  }
}

}  // namespace ibid
