#include "apps/terminal/progress.h"

#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "apps/terminal/graphemes.h"
#include "apps/terminal/terminal.h"
#include "base/write_all.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

// Minimum times between two updates of a line.
constexpr std::chrono::milliseconds kBetweenBytes{200};
constexpr std::chrono::milliseconds kBetweenSigns{100};
constexpr double kSecondsBeforeRate = 1.0;            // seconds before a rate is shown
constexpr std::chrono::seconds kShowElapsedAfter{2};  // ProgressIndicator shows the elapsed time only from this time on

std::string duration(double seconds) {
  const auto whole = static_cast<uint64_t>(std::ceil(seconds));
  if (whole < 120) return std::to_string(whole) + " s";
  if (whole < 7200) return std::to_string(whole / 60) + " min";
  return std::to_string(whole / 3600) + " h";
}

}  // namespace

std::string progress_line(uint64_t before, uint64_t done, uint64_t total, double seconds) {
  std::string line = format_bytes(done) + " of " + format_bytes(total);
  if (seconds < kSecondsBeforeRate || done <= before) return line;
  const double rate = static_cast<double>(done - before) / seconds;
  line += " · " + format_bytes(static_cast<size_t>(rate)) + "/s";
  if (done < total) line += " · " + duration(static_cast<double>(total - done) / rate) + " left";
  return line;
}

ByteProgress::ByteProgress(uint64_t done, uint64_t total)
    : before_(done), total_(total), supports_escapes_(supports_escapes(STDERR_FILENO)) {}

ByteProgress::~ByteProgress() {
  if (supports_escapes_ && shown_ != Clock::time_point()) std::fputs("\r\x1b[K", stderr);
}

void ByteProgress::show(uint64_t done) {
  const Clock::time_point now = Clock::now();
  if (!supports_escapes_ || now - shown_ < kBetweenBytes) return;
  shown_ = now;
  const std::chrono::duration<double> since = now - start_;
  std::fprintf(stderr, "\r\x1b[K%s", progress_line(before_, done, total_, since.count()).c_str());
}

ProgressIndicator::ProgressIndicator(int screen_fd, Clock::duration silence)
    : screen_(screen_fd),
      silence_(silence),
      supports_escapes_(supports_escapes(screen_fd)),
      dim_(shows_colours(screen_fd)) {}

ProgressIndicator::~ProgressIndicator() {
  end();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ProgressIndicator::show_step(std::string what) {
  if (!supports_escapes_) return;
  {
    const std::lock_guard lock(mutex_);
    if (what_.empty()) since_ = Clock::now();
    what_ = std::move(what);
  }
  if (thread_.joinable()) {
    changed_.notify_all();
    return;
  }
  // Block all signals in the new thread; other threads handle them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ProgressIndicator::end() {
  if (!supports_escapes_) return;
  const std::lock_guard lock(mutex_);
  what_.clear();
  if (!shown_.empty()) write_all(screen_, "\r\x1b[K");
  shown_.clear();
}

void ProgressIndicator::run() {
  std::unique_lock lock(mutex_);
  while (!leaves_) {
    if (what_.empty()) {
      changed_.wait(lock);
    } else if (const Clock::time_point due = since_ + silence_; Clock::now() < due) {
      changed_.wait_until(lock, due);
    } else {
      draw();
      changed_.wait_for(lock, kBetweenSigns, [this] { return leaves_; });
    }
  }
}

void ProgressIndicator::draw() {
  std::string line = what_;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - since_);
  if (seconds >= kShowElapsedAfter) line += " · " + std::to_string(seconds.count()) + " s";
  // Cut the line, because a wrapped row could not be erased.
  const size_t width = terminal_width(screen_);
  while (!line.empty() && text_columns(line) >= width) line.resize(grapheme_begin(line, line.size()));
  if (line == shown_ || line.empty()) return;
  shown_ = line;
  write_all(screen_, "\r\x1b[K" + std::string(dim_ ? "\x1b[2m" : "") + line + (dim_ ? "\x1b[0m" : ""));
}

}  // namespace ibid
