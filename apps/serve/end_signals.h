// EndSignals: SIGTERM and SIGINT as a server hears them. The first asks it to end in order; the second, or the first
// while nothing is to be ended in order yet, ends the process at once. One at a time.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/result.h"

namespace ibid::serve {

class EndSignals {
 public:
  // From here on this thread, and every thread that is made, does not get the signals: one thread of its own does. So
  // this is made before any other thread. Error: kIo.
  static Result<std::unique_ptr<EndSignals>> take();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // Removed where the process ends at once. Called before a signal can matter to it.
  void set_file_to_remove(std::string path);
  // From here on the first signal ends nothing by itself: wait() will hear of it.
  void expect();
  // Waits for the first signal. False: wake() was called before one came. REQUIRES: expect() was called.
  bool wait();
  void wake();

 private:
  EndSignals() = default;
  void watch();

  struct State;
  std::unique_ptr<State> state_;
  std::thread thread_;
};

}  // namespace ibid::serve
