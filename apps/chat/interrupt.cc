#include "apps/chat/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/check.h"

namespace ibid {

namespace {

// The handler may only write to a pipe; a thread waits at the other end and asks for the stop, which takes
// locks that a handler must not.
int wake_fd = -1;

void on_interrupt(int) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(wake_fd, "i", 1);
  errno = saved;
}

}  // namespace

struct InterruptScope::Watcher {
  int pipe[2];
  struct sigaction before {};
  std::thread thread;
};

InterruptScope::InterruptScope() : watcher_(new Watcher) {
  CHECK(wake_fd == -1) << "one InterruptScope at a time";
  CHECK(pipe2(watcher_->pipe, O_CLOEXEC) == 0);
  wake_fd = watcher_->pipe[1];
  watcher_->thread = std::thread([this, fd = watcher_->pipe[0]] {
    char reason = 0;
    while (read(fd, &reason, 1) < 0 && errno == EINTR) {
    }
    if (reason == 'i') stop_.request_stop();
  });
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  // The second Ctrl-C finds the default action again.
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
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
