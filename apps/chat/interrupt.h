// Ctrl-C as a stop token. While an InterruptScope lives, SIGINT asks its token to stop; a second SIGINT ends the
// process as usual, should the answer not stop. Outside of any scope SIGINT does what it did before.
#pragma once

#include <stop_token>

namespace ibid {

// One at a time in the process; made and destroyed on the same thread.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  std::stop_token token() const { return stop_.get_token(); }
  bool interrupted() const { return stop_.stop_requested(); }

 private:
  std::stop_source stop_;
  struct Watcher;
  Watcher* watcher_;
};

}  // namespace ibid
