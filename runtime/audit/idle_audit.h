// IdleAudit: audits a sample of the records that look-ups in the tier have read (runtime/audit/record_audit.h), on a
// thread of its own, while a processor is idle. Removes a wrong record, all records that may be computed from it, and
// the keys and values of its namespace in memory.
//
// Only records that are read can do harm, and those that are read often are audited often. The sample is random, so the
// author of a forged record cannot avoid the audit.
//
// Each piece of a computation has at most 64 rows at low priority, so an answer that arrives waits for one such piece
// at most. If no processor is idle for a while, the audit of a record releases its memory, and begins anew later. At
// most kMostWaiting records wait; further ones are not audited.
//
// Thread-safe. Engine and records must outlive the object.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "base/idle_time.h"
#include "cache/tier/tier_records.h"
#include "ibid/token.h"
#include "runtime/audit/record_audit.h"
#include "runtime/engine/engine_state.h"

namespace ibid {

class IdleAudit {
 public:
  static constexpr size_t kMostWaiting = 64;

  // Throws std::bad_alloc, and std::system_error if no thread can be started. REQUIRES: options.share is above 0.
  IdleAudit(EngineState& engine, TierRecords& records, IdleAuditOptions options);
  // Ends a running computation within a layer; the records that wait are not audited.
  ~IdleAudit();
  IdleAudit(const IdleAudit&) = delete;
  IdleAudit& operator=(const IdleAudit&) = delete;

  // Draws a sample of the records that a look-up for `ids` has read, and queues it. Does not wait.
  void offer(std::string_view name_space, TokenSpan ids, std::span<const RecordRange> used) noexcept;

  // Sets the function that gets a line for each wrong record, on the thread of the audit. It must not throw.
  void report_to(std::function<void(const std::string& line)> report);

  struct Stats {
    AuditCounts counts;
    size_t n_waiting = 0;  // now
    size_t n_dropped = 0;  // records of the sample for which there was no room
  };
  Stats stats() const;
  // Waits until no record waits. For tests.
  void wait_until_done();

 private:
  struct Waiting {
    std::string name_space;
    TierRecord record;
  };

  bool is_drawn();
  void run(const std::stop_token& stop);
  const Waiting& front() const;
  bool audit(const Waiting& waiting, const std::stop_token& stop);
  void record(const AuditResult& result);

  EngineState& engine_;
  TierRecords& records_;
  const double share_;
  const std::unique_ptr<IdleTime> idle_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable_any changed_;
  std::mt19937_64 generator_;
  std::deque<Waiting> waiting_;  // the first one is being audited
  Stats stats_;
  std::function<void(const std::string&)> report_;

  std::jthread thread_;  // last, because it uses all other members
};

}  // namespace ibid
