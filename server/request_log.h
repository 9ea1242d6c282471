// RequestLog: writes one line of JSON per exchange, with sizes, counts and times. A line has no prompt, answer or key,
// and in place of the path the route's pattern. Its only texts of a client are those of http::ExchangeRecord. A thread
// of its own writes, so that a slow reader of the log blocks no client; lines that do not fit in the queue are counted
// and dropped. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "server/http/reply.h"

namespace ibid::serve {

// Returns the line for a record, without a newline. unix_ms: the time in the line.
std::string log_line(const http::ExchangeRecord& record, int64_t unix_ms);

class RequestLog {
 public:
  // The log is written to this descriptor, which the caller owns.
  explicit RequestLog(int descriptor);
  ~RequestLog();  // writes the queued lines; waits at most a second for the reader
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  // Queues the record's line. Returns at once.
  void add(const http::ExchangeRecord& record);
  uint64_t n_dropped() const;

 private:
  void write_lines();
  void write_whole(std::string_view text);

  const int descriptor_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  uint64_t n_dropped_ = 0;
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace ibid::serve
