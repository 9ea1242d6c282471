// CircuitBreaker: decides whether calls to a server are worth making. Closed: calls are made. Open: no call is made, so
// a server that is down or slow costs its callers nothing; a probe is made after a pause, which doubles from
// kMinPauseNs to kMaxPauseNs. On trial: a probe has succeeded, so calls are made; a call that succeeds closes the
// breaker, and a single failure opens it again with the next longer pause.
//
// Thread-safe. `clock` must outlive the breaker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace ibid::net {

class CircuitBreaker {
 public:
  static constexpr int64_t kMinPauseNs = 1'000'000'000, kMaxPauseNs = 60'000'000'000;
  static constexpr int kMaxFailures = 3;  // consecutive failures that open a closed breaker

  enum class State { kClosed, kTrial, kOpen };

  explicit CircuitBreaker(Clock& clock) : clock_(clock) {}

  bool allows_calls() const { return state() != State::kOpen; }
  State state() const;
  // Why the breaker is open: the last failure; empty if it is not open.
  std::string reason() const;
  size_t n_opened() const;  // number of times that the breaker was opened

  // Report the outcome of each call that was allowed.
  void call_succeeded();
  void call_failed(const Status& why);
  // Opens the breaker at once, for a server that cannot be reached at all.
  void open(const Status& why);

  // Time until the next probe is due: 0 if it is due now; -1 if none is needed, because the breaker is not open.
  int64_t probe_due_in_ns() const;
  // Report the outcome of each probe. Only one thread makes probes.
  void probe_succeeded();
  void probe_failed(const Status& why) { open(why); }

 private:
  void open_locked(const Status& why);  // REQUIRES: mutex_ is locked

  Clock& clock_;
  mutable std::mutex mutex_;  // guards the members below
  State state_ = State::kClosed;
  int n_failures_ = 0;
  int64_t pause_ns_ = 0;  // the last pause; 0: none since the last success
  int64_t probe_at_ns_ = 0;
  size_t n_opened_ = 0;
  std::string reason_;
};

}  // namespace ibid::net
