// A line on a terminal that says how much of a file has come, how fast, and how long it will take.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ibid {

class ByteProgress {
 public:
  using Clock = std::chrono::steady_clock;

  // done: bytes that were there before.
  ByteProgress(uint64_t done, uint64_t total);
  ~ByteProgress();
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  void show(uint64_t done);

 private:
  const uint64_t before_;
  const uint64_t total_;
  const bool works_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_{};
};

// "12 MB of 98 MB · 5.1 MB/s · 17 s left". seconds: since there were `before` bytes.
std::string progress_line(uint64_t before, uint64_t done, uint64_t total, double seconds);

}  // namespace ibid
