// A line that says what is being waited for, while nothing else comes: "reading 512 of 6459 tokens · 3 s". It
// appears when nothing came for a while, so that fast things do not flicker, and is erased when something comes. A
// terminal that does not obey sequences gets no such line.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ibid {

// say() and end() may be called from any thread. Nobody else may write to the terminal between say() and
// end().
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
