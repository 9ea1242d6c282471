// The terminal while an answer is given: Ctrl-C is a stop token, and text that is typed ahead is not shown before its
// turn comes. While an InterruptScope lives, SIGINT asks its token to stop. If the answer does
// not stop, a second SIGINT ends the process as usual. Outside of any scope SIGINT does what it did before. If
// lines are edited (TerminalInput), what is typed meanwhile is collected for the editor. Ctrl-C throws that away,
// so that nothing more of a text that was pasted line by line is answered.
#pragma once

#include <termios.h>

#include <stop_token>

namespace ibid {

// While it lives, a terminal on standard input keeps what is typed without echoing it. Does nothing where
// lines are edited.
class EchoOff {
 public:
  EchoOff();
  ~EchoOff();
  EchoOff(const EchoOff&) = delete;
  EchoOff& operator=(const EchoOff&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

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
  EchoOff echo_off_;
  void watch(int wake);

  struct Watcher;
  Watcher* watcher_;
};

}  // namespace ibid
