// Progress lines on a terminal. They are not shown on a terminal without escape sequences.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace ibid {

// Progress of a download: bytes, rate and remaining time. Not thread-safe.
class ByteProgress {
 public:
  using Clock = std::chrono::steady_clock;

  // `done`: number of bytes that were present before.
  ByteProgress(uint64_t done, uint64_t total);
  ~ByteProgress();
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  void show(uint64_t done);

 private:
  const uint64_t before_;
  const uint64_t total_;
  const bool supports_escapes_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_{};
};

// Returns "12 MB of 98 MB · 5.1 MB/s · 17 s left". The first `before` bytes were present `seconds` ago.
std::string progress_line(uint64_t before, uint64_t done, uint64_t total, double seconds);

// Progress indicator for a wait: "reading 512 of 6459 tokens · 3 s". The indicator appears after `silence`, so that it
// does not flicker in fast steps; end() erases it. show_step() and end() may be called from any thread. REQUIRES:
// nothing else writes to the terminal between show_step() and end().
class ProgressIndicator {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kSilence{200};

  explicit ProgressIndicator(int screen_fd, Clock::duration silence = kSilence);
  ~ProgressIndicator();
  ProgressIndicator(const ProgressIndicator&) = delete;
  ProgressIndicator& operator=(const ProgressIndicator&) = delete;

  // Starts the indicator, or changes its text. REQUIRES: the cursor is at the start of an empty row.
  void show_step(std::string what);
  // Stops the indicator and empties the row.
  void end();

 private:
  void run();
  void draw();

  const int screen_;
  const Clock::duration silence_;
  const bool supports_escapes_;
  const bool dim_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;  // started by the first show_step()
  // These members are guarded by mutex_:
  std::string what_;  // empty: not waiting
  Clock::time_point since_;
  std::string shown_;  // the line on the screen; empty: no line is shown
  bool leaves_ = false;
};

}  // namespace ibid
