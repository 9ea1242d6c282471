#include "apps/serve/end_signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

namespace ibid::serve {

namespace {

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

struct EndSignals::State {
  ~State() {
    if (signals >= 0) close(signals);
    if (leave >= 0) close(leave);
    pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  }

  int signals = -1;
  int leave = -1;  // readable: the thread is to end
  sigset_t mask_before{};
  std::mutex mutex;
  std::condition_variable heard;
  bool is_expected = false;
  bool has_come = false;
  bool is_woken = false;  // since the last wait()
  std::string file_to_remove;
};

Result<std::unique_ptr<EndSignals>> EndSignals::take() {
  const sigset_t set = end_signals();
  std::unique_ptr<EndSignals> made(new EndSignals);
  made->state_ = std::make_unique<State>();
  pthread_sigmask(SIG_BLOCK, &set, &made->state_->mask_before);
  made->state_->signals = signalfd(-1, &set, SFD_CLOEXEC);
  made->state_->leave = eventfd(0, EFD_CLOEXEC);
  if (made->state_->signals < 0 || made->state_->leave < 0) {
    return {ErrorCode::kIo, std::string("signals cannot be waited for: ") + std::strerror(errno)};
  }
  made->thread_ = std::thread([self = made.get()] { self->watch(); });
  return made;
}

EndSignals::~EndSignals() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(state_->leave, &one, sizeof(one));
  thread_.join();
}

void EndSignals::set_file_to_remove(std::string path) {
  const std::lock_guard lock(state_->mutex);
  state_->file_to_remove = std::move(path);
}

void EndSignals::expect() {
  const std::lock_guard lock(state_->mutex);
  state_->is_expected = true;
}

bool EndSignals::wait() {
  std::unique_lock lock(state_->mutex);
  state_->heard.wait(lock, [this] { return state_->has_come || state_->is_woken; });
  state_->is_woken = false;
  return state_->has_come;
}

void EndSignals::wake() {
  const std::lock_guard lock(state_->mutex);
  state_->is_woken = true;
  state_->heard.notify_all();
}

void EndSignals::watch() {
  while (true) {
    pollfd sources[2] = {{state_->signals, POLLIN, 0}, {state_->leave, POLLIN, 0}};
    if (poll(sources, 2, -1) < 0) continue;
    if (sources[1].revents != 0) return;
    signalfd_siginfo signal{};
    if (read(state_->signals, &signal, sizeof(signal)) != static_cast<ssize_t>(sizeof(signal))) continue;
    const std::lock_guard lock(state_->mutex);
    if (state_->has_come || !state_->is_expected) {
      if (!state_->file_to_remove.empty()) unlink(state_->file_to_remove.c_str());
      _exit(128 + static_cast<int>(signal.ssi_signo));  // as shells report a process that a signal ended
    }
    state_->has_come = true;
    state_->heard.notify_all();
  }
}

}  // namespace ibid::serve
