// A clock for tests of timings, deadlines and expiry without waiting. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace ibid {

// Advances only by advance().
class ManualClock : public Clock {
 public:
  explicit ManualClock(int64_t unix_ns = 0) : unix_start_ns_(unix_ns) {}

  int64_t steady_ns() override { return elapsed_ns_.load(); }
  int64_t unix_ns() override { return unix_start_ns_ + elapsed_ns_.load(); }
  // REQUIRES: ns >= 0.
  void advance(int64_t ns) { elapsed_ns_.fetch_add(ns); }

 private:
  const int64_t unix_start_ns_;
  std::atomic<int64_t> elapsed_ns_{0};
};

}  // namespace ibid
