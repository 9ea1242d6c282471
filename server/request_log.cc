#include "server/request_log.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "base/json_limits.h"

namespace ibid::serve {

namespace {

constexpr size_t kMaxLines = 10'000;

double rounded_ms(double ms) { return std::round(ms * 1000) / 1000; }

// Time limit for writing the last lines when the log is destroyed: its reader may have stopped reading.
constexpr std::chrono::milliseconds kLastLines{1000};
constexpr int kLookMs = 50;

}  // namespace

std::string log_line(const http::ExchangeRecord& record, int64_t unix_ms) {
  Json line = Json::object();
  line["time_ms"] = unix_ms;
  line["id"] = record.id;
  if (!record.request_id.empty()) line["request_id"] = record.request_id;
  if (!record.trace_parent.empty()) line["traceparent"] = record.trace_parent;
  line["client"] = record.client;
  line["method"] = record.method;
  line["path"] = record.pattern.empty() ? Json() : Json(record.pattern);
  if (!record.unknown_path.empty()) line["unknown_path"] = record.unknown_path;
  line["status"] = record.status;
  line["bytes_in"] = record.n_bytes_in;
  line["bytes_out"] = record.n_bytes_out;
  line["first_byte_ms"] = rounded_ms(record.first_byte_ms);
  line["total_ms"] = rounded_ms(record.total_ms);
  if (record.client_gone) line["client_gone"] = true;
  if (record.client_slow) line["client_slow"] = true;
  const http::AnswerFigures& figures = record.figures;
  if (!figures.model.empty()) {
    line["model"] = figures.model;
    line["n_prompt"] = figures.n_prompt;
    line["n_cached"] = figures.n_cached;
    line["n_prefilled"] = figures.n_prefilled;
    line["n_decoded"] = figures.n_decoded;
    line["queue_ms"] = rounded_ms(figures.queue_ms);
    line["prefill_ms"] = rounded_ms(figures.prefill_ms);
    line["decode_ms"] = rounded_ms(figures.decode_ms);
    line["ttft_ms"] = rounded_ms(figures.ttft_ms);
    if (!figures.ignored.empty()) line["ignored"] = figures.ignored;
    if (figures.n_unknown_fields > 0) line["n_unknown_fields"] = figures.n_unknown_fields;
  }
  return json_to_string(line);
}

RequestLog::RequestLog(int descriptor) : descriptor_(descriptor), thread_([this] { write_lines(); }) {}

RequestLog::~RequestLog() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void RequestLog::add(const http::ExchangeRecord& record) {
  using std::chrono::duration_cast;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string line = log_line(record, duration_cast<std::chrono::milliseconds>(now).count()) + "\n";
  {
    const std::lock_guard lock(mutex_);
    if (lines_.size() >= kMaxLines) {
      ++n_dropped_;
      return;
    }
    lines_.push_back(std::move(line));
  }
  changed_.notify_one();
}

uint64_t RequestLog::n_dropped() const {
  const std::lock_guard lock(mutex_);
  return n_dropped_;
}

void RequestLog::write_lines() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || !lines_.empty(); });
    if (lines_.empty()) return;
    std::string text;
    for (const std::string& line : lines_) text += line;
    lines_.clear();
    lock.unlock();
    write_whole(text);
    lock.lock();
  }
}

// If poll() reports a pipe as writable, it takes PIPE_BUF bytes without blocking. The descriptor is shared with other
// processes, so it must not be made non-blocking.
void RequestLog::write_whole(std::string_view text) {
  std::optional<std::chrono::steady_clock::time_point> end;
  while (!text.empty()) {
    pollfd target{descriptor_, POLLOUT, 0};
    const int n_ready = poll(&target, 1, kLookMs);
    if (n_ready < 0 && errno != EINTR) return;
    if (n_ready > 0) {
      const ssize_t n = write(descriptor_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
      if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return;  // the log has no reader any more
      if (n > 0) text.remove_prefix(static_cast<size_t>(n));
      continue;
    }
    if (!is_ending_) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!end) end = now + kLastLines;
    if (now >= *end) return;
  }
}

}  // namespace ibid::serve
