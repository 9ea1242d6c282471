// The lines on a terminal that say how far something is. A terminal that does not obey sequences gets none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace ibid {

// How much of a file has come, how fast, and how long it will take. Not thread-safe.
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

// The name of what is waited for, while nothing else comes: "reading 512 of 6459 tokens · 3 s". The line appears when
// nothing came for a while, so that fast things do not flicker, and is erased when something comes. say() and end() may
// be called from any thread. REQUIRES: nothing else writes to the terminal between say() and end().
class SignOfLife {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kSilence{200};

  explicit SignOfLife(int screen_fd, Clock::duration silence = kSilence);
  ~SignOfLife();
  SignOfLife(const SignOfLife&) = delete;
  SignOfLife& operator=(const SignOfLife&) = delete;

  // Waiting begins, or is for something else now. REQUIRES: the cursor stands at the beginning of an empty
  // row.
  void say(std::string what);
  // Waiting is over; the row is empty again.
  void end();

 private:
  void run();
  void draw();

  const int screen_;
  const Clock::duration silence_;
  const bool works_;
  const bool dim_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;             // begins with the first say()
  // Guarded:
  std::string what_;               // empty: nothing is waited for
  Clock::time_point since_;
  std::string shown_;              // what stands there; empty: nothing
  bool leaves_ = false;
};

}  // namespace ibid
