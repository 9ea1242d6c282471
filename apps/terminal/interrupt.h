// Ctrl-C, and text typed, during an answer. While an InterruptScope exists, SIGINT requests a stop on its token; if the
// answer does not stop, a second SIGINT ends the process. Outside of a scope SIGINT keeps its previous handler. If the
// line editor is active (TerminalInput), text typed meanwhile is collected for it without being shown; Ctrl-C discards
// that text, so that the rest of a text pasted line by line is not sent.
#pragma once

#include <termios.h>

#include <stop_token>

namespace ibid {

// While an EchoOff exists, a terminal on standard input does not echo; typed text stays in the system's queue. Does
// nothing if the line editor is active.
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

// At most one exists in the process. It must be destroyed on the thread that constructed it.
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
