#include "net/circuit_breaker.h"

#include <algorithm>
#include <new>

namespace ibid::net {

CircuitBreaker::State CircuitBreaker::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::string CircuitBreaker::reason() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kOpen ? reason_ : std::string();
}

size_t CircuitBreaker::n_opened() const {
  const std::lock_guard lock(mutex_);
  return n_opened_;
}

void CircuitBreaker::call_succeeded() {
  const std::lock_guard lock(mutex_);
  n_failures_ = 0;
  if (state_ == State::kOpen) return;  // a call that began before the breaker was opened
  state_ = State::kClosed;
  pause_ns_ = 0;
}

void CircuitBreaker::call_failed(const Status& why) {
  const std::lock_guard lock(mutex_);
  ++n_failures_;
  if (state_ == State::kTrial || (state_ == State::kClosed && n_failures_ >= kMaxFailures)) open_locked(why);
}

void CircuitBreaker::open(const Status& why) {
  const std::lock_guard lock(mutex_);
  open_locked(why);
}

void CircuitBreaker::open_locked(const Status& why) {
  if (state_ != State::kOpen) ++n_opened_;
  state_ = State::kOpen;
  n_failures_ = 0;
  pause_ns_ = std::clamp(2 * pause_ns_, kMinPauseNs, kMaxPauseNs);
  probe_at_ns_ = clock_.steady_ns() + pause_ns_;
  try {
    reason_ = why.message();
  } catch (const std::bad_alloc&) {
    reason_.clear();
  }
}

int64_t CircuitBreaker::probe_due_in_ns() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kOpen ? std::max<int64_t>(probe_at_ns_ - clock_.steady_ns(), 0) : -1;
}

void CircuitBreaker::probe_succeeded() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kOpen) state_ = State::kTrial;
}

}  // namespace ibid::net
