#include "apps/terminal/terminal_input.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"

namespace ibid {
namespace {

TerminalInput* the_input = nullptr;

// Signals become bytes in a pipe, which can be waited for together with keys.
int signal_pipe[2] = {-1, -1};
struct sigaction size_before, continue_before;

void tell(char what) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(signal_pipe[1], &what, 1);
  errno = saved;
}

void on_size(int) { tell('s'); }

void size_after_stop(int signal) {
  const auto before = continue_before.sa_handler;
  if (before != SIG_DFL && before != SIG_IGN) before(signal);
  tell('c');
}

}  // namespace

// REQUIRES of its maker: TerminalModes, whose handler for SIGCONT it calls, lives longer.
TerminalInput::TerminalInput(int keys_fd) : keys_(keys_fd) {
  CHECK(the_input == nullptr) << "one TerminalInput at a time";
  CHECK(pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_size;
  sigaction(SIGWINCH, &action, &size_before);
  action.sa_handler = size_after_stop;
  sigaction(SIGCONT, &action, &continue_before);
  the_input = this;
}

TerminalInput::~TerminalInput() {
  sigaction(SIGWINCH, &size_before, nullptr);
  sigaction(SIGCONT, &continue_before, nullptr);
  the_input = nullptr;
  close(signal_pipe[0]);
  close(signal_pipe[1]);
}

TerminalInput* TerminalInput::current() { return the_input; }

bool TerminalInput::has_byte() {
  {
    const std::lock_guard lock(mutex_);
    if (taken_ < waiting_.size()) return true;
  }
  pollfd readable{keys_, POLLIN, 0};
  return poll(&readable, 1, 0) > 0 && collect() && taken_ < waiting_.size();
}

bool TerminalInput::collect() {
  char buffer[4096];
  const ssize_t n = read(keys_, buffer, sizeof(buffer));
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (n == 0) return false;
  const std::lock_guard lock(mutex_);
  waiting_.erase(0, taken_);
  taken_ = 0;
  waiting_.append(buffer, static_cast<size_t>(n));
  return true;
}

void TerminalInput::discard() {
  tcflush(keys_, TCIFLUSH);
  const std::lock_guard lock(mutex_);
  waiting_.clear();
  taken_ = 0;
}

TerminalInput::Event TerminalInput::next(char& byte, std::optional<std::chrono::milliseconds> patience) {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (taken_ < waiting_.size()) {
        byte = waiting_[taken_++];
        return Event::kByte;
      }
    }
    pollfd sources[2] = {{keys_, POLLIN, 0}, {signal_pipe[0], POLLIN, 0}};
    const int n = poll(sources, 2, patience ? static_cast<int>(patience->count()) : -1);
    if (n == 0) return Event::kTimeout;
    if (n < 0 && errno != EINTR) return Event::kEnd;
    if (n < 0) continue;
    char what = 0;
    if ((sources[1].revents & POLLIN) != 0 && read(signal_pipe[0], &what, 1) == 1) {
      return what == 's' ? Event::kSizeChanged : Event::kContinued;
    }
    if (sources[0].revents != 0 && !collect()) return Event::kEnd;
  }
}

}  // namespace ibid
