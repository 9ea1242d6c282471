#include "apps/terminal/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "base/write_all.h"

namespace ibid {

namespace {

constexpr size_t kUsualHeight = 24;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

}  // namespace

size_t terminal_width(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

size_t terminal_height(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsualHeight;
}

bool supports_escapes(int fd) {
  const std::string_view term = environment("TERM");
  return isatty(fd) == 1 && !term.empty() && term != "dumb";
}

bool shows_colours(int fd) { return supports_escapes(fd) && environment("NO_COLOR").empty(); }

namespace {

constexpr std::string_view kPasteInBrackets = "\x1b[?2004h";
constexpr std::string_view kPasteAsTyped = "\x1b[?2004l";
// SIGBUS is not in the list, because base/mapped_file.h handles it.
constexpr int kEnding[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGILL, SIGABRT, SIGFPE, SIGSEGV};
constexpr size_t kNEnding = sizeof(kEnding) / sizeof(kEnding[0]);

// Variables of the signal handlers, which may only make async-signal-safe calls.
int keys = -1;
int screen = -1;
termios modes_of[3];
volatile sig_atomic_t current = 0;          // a TerminalMode
volatile sig_atomic_t late_interrupts = 0;  // number of SIGINTs since the mode was set
bool installed = false;
struct sigaction before_ending[kNEnding];
struct sigaction before_stop, before_continue;

void apply(TerminalMode mode) {
  tcsetattr(keys, TCSANOW, &modes_of[static_cast<int>(mode)]);
  write_all(screen, mode == TerminalMode::kOriginal ? kPasteAsTyped : kPasteInBrackets);
}

void on_end(int signal) {
  // Ignore the first Ctrl-C, which may have been meant for an answer that has just ended. The second one ends the
  // program.
  if (signal == SIGINT && static_cast<TerminalMode>(current) == TerminalMode::kAnswering) {
    late_interrupts = late_interrupts + 1;
    if (late_interrupts == 1) return;
  }
  TerminalModes::restore_in_handler();
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  sigaction(signal, &by_default, nullptr);
  raise(signal);  // the signal is delivered when this handler returns
}

void on_stop(int) {
  const int saved = errno;
  TerminalModes::restore_in_handler();
  struct sigaction by_default {};
  struct sigaction ours {};
  by_default.sa_handler = SIG_DFL;
  sigaction(SIGTSTP, &by_default, &ours);
  sigset_t stop, mask;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, &mask);  // the process stops here, and continues after SIGCONT
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  sigaction(SIGTSTP, &ours, nullptr);
  errno = saved;
}

void on_continue(int) {
  const int saved = errno;
  const auto mode = static_cast<TerminalMode>(current);
  if (mode != TerminalMode::kOriginal && TerminalModes::may_touch(keys)) apply(mode);
  errno = saved;
}

void handle(int signal, void (*handler)(int), struct sigaction* before) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, nullptr, before);
  if (before->sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // a signal ignored by nohup stays ignored
}

}  // namespace

TerminalModes::TerminalModes(int keys_fd, int screen_fd) {
  CHECK(!installed) << "one TerminalModes at a time";
  keys = keys_fd;
  screen = screen_fd;
  termios found{};
  CHECK(tcgetattr(keys, &found) == 0) << "not a terminal";
  termios typing = found;
  typing.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN | ISIG);
  typing.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | IXON | ISTRIP | BRKINT);
  typing.c_cc[VMIN] = 1;
  typing.c_cc[VTIME] = 0;
  termios answering = typing;
  answering.c_lflag |= found.c_lflag & ISIG;
  answering.c_iflag |= found.c_iflag & IXON;
  modes_of[0] = found;
  modes_of[1] = typing;
  modes_of[2] = answering;
  installed = true;
  for (size_t i = 0; i < kNEnding; ++i) handle(kEnding[i], on_end, &before_ending[i]);
  handle(SIGTSTP, on_stop, &before_stop);
  handle(SIGCONT, on_continue, &before_continue);
}

TerminalModes::~TerminalModes() {
  set(TerminalMode::kOriginal);
  for (size_t i = 0; i < kNEnding; ++i) sigaction(kEnding[i], &before_ending[i], nullptr);
  sigaction(SIGTSTP, &before_stop, nullptr);
  sigaction(SIGCONT, &before_continue, nullptr);
  installed = false;
}

void TerminalModes::set(TerminalMode mode) {
  if (static_cast<TerminalMode>(current) == mode) return;
  const auto before = static_cast<TerminalMode>(current);
  const bool between_ours = mode != TerminalMode::kOriginal && before != TerminalMode::kOriginal;
  current = static_cast<sig_atomic_t>(mode);
  late_interrupts = 0;
  if (mode != TerminalMode::kOriginal && !TerminalModes::may_touch(keys)) return;
  if (between_ours) {
    tcsetattr(keys, TCSANOW, &modes_of[static_cast<int>(mode)]);
  } else {
    apply(mode);
  }
}

void TerminalModes::restore_in_handler() {
  const bool is_ours = installed && static_cast<TerminalMode>(current) != TerminalMode::kOriginal;
  if (!is_ours || !may_touch(keys)) return;
  apply(TerminalMode::kOriginal);
}

bool TerminalModes::may_touch(int keys_fd) {
  const pid_t foreground = tcgetpgrp(keys_fd);
  return foreground == -1 || foreground == getpgrp();  // -1: the terminal has no job control
}

void TerminalModes::suspend() { kill(0, SIGTSTP); }

}  // namespace ibid
