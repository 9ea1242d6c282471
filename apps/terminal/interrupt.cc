#include "apps/terminal/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "apps/terminal/terminal.h"
#include "apps/terminal/terminal_input.h"
#include "base/check.h"

namespace ibid {

namespace {

constexpr int kLookAgainMs = 200;  // interval of checks whether the process is in the foreground again

// Variables of the signal handler, which may only make async-signal-safe calls.
int wake_fd = -1;
volatile sig_atomic_t n_interrupts = 0;
const termios* restore_terminal = nullptr;

// The first SIGINT wakes a thread that requests the stop, because a handler may not take locks. The second restores the
// terminal and ends the process.
void on_interrupt(int) {
  const int saved = errno;
  n_interrupts = n_interrupts + 1;
  if (n_interrupts == 1) {
    [[maybe_unused]] const ssize_t written = write(wake_fd, "i", 1);
  } else {
    if (restore_terminal != nullptr) tcsetattr(STDIN_FILENO, TCSANOW, restore_terminal);
    TerminalModes::restore_in_handler();
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  errno = saved;
}

}  // namespace

EchoOff::EchoOff() {
  if (TerminalInput::current() != nullptr) return;  // the line editor turns off the echo itself
  if (isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &before_) != 0) return;
  termios quiet = before_;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  changed_ = tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
  if (changed_) restore_terminal = &before_;
}

EchoOff::~EchoOff() {
  if (!changed_) return;
  restore_terminal = nullptr;
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

struct InterruptScope::Watcher {
  int pipe[2];
  struct sigaction before {};
  std::thread thread;
};

// Collects typed text until the scope ends or Ctrl-C is pressed, which discards it.
void InterruptScope::watch(int wake) {
  TerminalInput* input = TerminalInput::current();
  for (char reason = 0; reason == 0;) {
    // Read from the terminal only in the foreground, because reading would stop a background process.
    const bool typing = input != nullptr && TerminalModes::may_touch(input->fd());
    pollfd sources[2] = {{wake, POLLIN, 0}, {typing ? input->fd() : -1, POLLIN, 0}};
    if (poll(sources, 2, input != nullptr && !typing ? kLookAgainMs : -1) <= 0) continue;
    if (sources[0].revents != 0 && read(wake, &reason, 1) < 0) reason = 0;
    if (reason == 'i') {
      if (input != nullptr) input->discard();
      stop_.request_stop();
    } else if (reason == 0 && typing && sources[1].revents != 0 && !input->collect()) {
      input = nullptr;  // the terminal was closed
    }
  }
}

InterruptScope::InterruptScope() : watcher_(new Watcher) {
  CHECK(wake_fd == -1) << "one InterruptScope at a time";
  CHECK(pipe2(watcher_->pipe, O_CLOEXEC) == 0);
  wake_fd = watcher_->pipe[1];
  watcher_->thread = std::thread([this, fd = watcher_->pipe[0]] { watch(fd); });
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  n_interrupts = 0;
  sigaction(SIGINT, &action, &watcher_->before);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &watcher_->before, nullptr);
  [[maybe_unused]] const ssize_t written = write(watcher_->pipe[1], "e", 1);
  watcher_->thread.join();
  wake_fd = -1;
  close(watcher_->pipe[0]);
  close(watcher_->pipe[1]);
  delete watcher_;
}

}  // namespace ibid
