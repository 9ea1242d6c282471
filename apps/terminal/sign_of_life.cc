#include "apps/terminal/sign_of_life.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "apps/terminal/graphemes.h"
#include "apps/terminal/terminal_traits.h"

namespace ibid {
namespace {

constexpr std::chrono::milliseconds kBetween{100};  // two changes of the line
constexpr std::chrono::seconds kWorthTelling{2};    // how long it takes is said from then on

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

SignOfLife::SignOfLife(int screen_fd, Clock::duration silence)
    : screen_(screen_fd), silence_(silence), works_(obeys_sequences(screen_fd)), dim_(shows_colours(screen_fd)) {}

SignOfLife::~SignOfLife() {
  end();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SignOfLife::say(std::string what) {
  if (!works_) return;
  {
    const std::lock_guard lock(mutex_);
    if (what_.empty()) since_ = Clock::now();
    what_ = std::move(what);
  }
  if (thread_.joinable()) {
    changed_.notify_all();
    return;
  }
  // Signals are for the threads that expect them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void SignOfLife::end() {
  if (!works_) return;
  const std::lock_guard lock(mutex_);
  what_.clear();
  if (!shown_.empty()) write_all(screen_, "\r\x1b[K");
  shown_.clear();
}

void SignOfLife::run() {
  std::unique_lock lock(mutex_);
  while (!leaves_) {
    if (what_.empty()) {
      changed_.wait(lock);
    } else if (const Clock::time_point due = since_ + silence_; Clock::now() < due) {
      changed_.wait_until(lock, due);
    } else {
      draw();
      changed_.wait_for(lock, kBetween, [this] { return leaves_; });
    }
  }
}

void SignOfLife::draw() {
  std::string line = what_;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - since_);
  if (seconds >= kWorthTelling) line += " · " + std::to_string(seconds.count()) + " s";
  // A row that wraps could not be erased.
  const size_t width = terminal_width(screen_);
  while (!line.empty() && text_columns(line) >= width) line.resize(grapheme_begin(line, line.size()));
  if (line == shown_ || line.empty()) return;
  shown_ = line;
  write_all(screen_, "\r\x1b[K" + std::string(dim_ ? "\x1b[2m" : "") + line + (dim_ ? "\x1b[0m" : ""));
}

}  // namespace ibid
