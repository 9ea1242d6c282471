// Outbox: the bytes that are on their way to a client, and how much time it has for them. It moves none itself.
//
// There is a time until a client takes some of them, and one for all of them together: who takes a few bytes now and
// then would otherwise keep its place for as long as it likes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace ibid::http {

class Outbox {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Patience until some bytes are taken; for all of them as much, and a second for each so many bytes. Behind `stall` a
  // client counts as slow.
  struct Pace {
    std::chrono::milliseconds patience;
    size_t bytes_per_second;
    std::chrono::milliseconds stall;
  };

  explicit Outbox(const Pace& pace) : pace_(pace) {}

  // What comes next is appended here. REQUIRES: nothing is on its way.
  std::string& bytes() { return bytes_; }
  bool is_empty() const { return bytes_.empty(); }
  bool is_writing() const { return is_writing_; }
  std::string_view rest() const { return std::string_view(bytes_).substr(n_taken_); }

  // A write of the rest begins.
  void begin(TimePoint now) {
    is_writing_ = true;
    if (n_taken_ == 0) {
      whole_deadline_ = now + pace_.patience + std::chrono::seconds(bytes_.size() / pace_.bytes_per_second);
      stall_ = now + pace_.stall;
    }
    deadline_ = std::min(now + pace_.patience, whole_deadline_);
  }
  // It has ended, and the client's side has taken so many bytes. Returns how many these were in all if none is left,
  // and 0 otherwise.
  size_t end(size_t n_bytes) {
    is_writing_ = false;
    deadline_ = TimePoint::max();
    n_taken_ += n_bytes;
    if (n_taken_ < bytes_.size()) return 0;
    bytes_.clear();
    stall_ = TimePoint::max();
    return std::exchange(n_taken_, 0);
  }

  // When the client has lost its place; never, if nothing is on its way.
  TimePoint deadline() const { return deadline_; }
  // When it counts as slow; never, once it does.
  TimePoint stall() const { return stall_; }
  void count_as_slow() { stall_ = TimePoint::max(); }

 private:
  const Pace pace_;
  std::string bytes_;
  size_t n_taken_ = 0;
  bool is_writing_ = false;
  TimePoint deadline_ = TimePoint::max();
  TimePoint whole_deadline_;
  TimePoint stall_ = TimePoint::max();
};

}  // namespace ibid::http
