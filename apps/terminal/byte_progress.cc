#include "apps/terminal/byte_progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "apps/terminal/terminal_traits.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

constexpr std::chrono::milliseconds kBetween{200};
constexpr double kSure = 1.0;  // seconds, before which a rate says nothing

std::string duration(double seconds) {
  const auto whole = static_cast<uint64_t>(std::ceil(seconds));
  if (whole < 120) return std::to_string(whole) + " s";
  if (whole < 7200) return std::to_string(whole / 60) + " min";
  return std::to_string(whole / 3600) + " h";
}

}  // namespace

std::string progress_line(uint64_t before, uint64_t done, uint64_t total, double seconds) {
  std::string line = format_bytes(done) + " of " + format_bytes(total);
  if (seconds < kSure || done <= before) return line;
  const double rate = static_cast<double>(done - before) / seconds;
  line += " · " + format_bytes(static_cast<size_t>(rate)) + "/s";
  if (done < total) line += " · " + duration(static_cast<double>(total - done) / rate) + " left";
  return line;
}

ByteProgress::ByteProgress(uint64_t done, uint64_t total)
    : before_(done), total_(total), works_(obeys_sequences(STDERR_FILENO)) {}

ByteProgress::~ByteProgress() {
  if (works_ && shown_ != Clock::time_point()) std::fputs("\r\x1b[K", stderr);
}

void ByteProgress::show(uint64_t done) {
  const Clock::time_point now = Clock::now();
  if (!works_ || now - shown_ < kBetween) return;
  shown_ = now;
  const std::chrono::duration<double> since = now - start_;
  std::fprintf(stderr, "\r\x1b[K%s", progress_line(before_, done, total_, since.count()).c_str());
}

}  // namespace ibid
