// Connection: one client connection, from accept to close. For each exchange, one after the other, it reads a request
// (request_reader.h), lets the RequestFilter check it, passes the exchange to its handler, and sends the response
// (reply.h).
//
// While it sends a response it also reads: the client's next request, or the end of the client's input. It reads ahead
// up to a limit; beyond that it checks periodically whether the client is still connected. If the client's input has
// ended, the client may have left. gone() of the exchange is then requested, so that no more is computed. A whole
// response is still sent; its delivery shows whether the client had left (Delivery).
//
// All work is done in the callbacks of its transport, one at a time; give_way(), end() and close_when_idle() may be
// called from any thread. A connection owns its transport, whose callbacks own the connection, so it lives until the
// last callback is done.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/network.h"
#include "server/http/reply.h"
#include "server/http/request_filter.h"
#include "server/http/request_reader.h"
#include "server/http/response_writer.h"
#include "server/http/server_room.h"

namespace ibid::http {

// Outbox: the bytes to be sent to a client, and the deadlines by which the client must take them. It does no I/O.
//
// There is one deadline for the next bytes and one for all bytes. Without the second, a client that takes a few bytes
// now and then could keep its connection as long as it likes.
class Outbox {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // patience: time limit for the next bytes. The limit for all bytes is `patience` plus one second for each
  // bytes_per_second bytes. A client that takes longer than `stall` counts as slow.
  struct Pace {
    std::chrono::milliseconds patience;
    size_t bytes_per_second;
    std::chrono::milliseconds stall;
  };

  explicit Outbox(const Pace& pace) : pace_(pace) {}

  // The caller appends the next bytes to this string. REQUIRES: is_empty().
  std::string& bytes() { return bytes_; }
  bool is_empty() const { return bytes_.empty(); }
  bool is_writing() const { return is_writing_; }
  std::string_view rest() const { return std::string_view(bytes_).substr(n_taken_); }

  // Call when a write of rest() starts.
  void begin(TimePoint now) {
    is_writing_ = true;
    if (n_taken_ == 0) {
      whole_deadline_ = now + pace_.patience + std::chrono::seconds(bytes_.size() / pace_.bytes_per_second);
      stall_ = now + pace_.stall;
    }
    deadline_ = std::min(now + pace_.patience, whole_deadline_);
  }
  // Call when a write of n_bytes has ended. Returns the size of all bytes if nothing is left to write, else 0.
  size_t end(size_t n_bytes) {
    is_writing_ = false;
    deadline_ = TimePoint::max();
    n_taken_ += n_bytes;
    if (n_taken_ < bytes_.size()) return 0;
    bytes_.clear();
    stall_ = TimePoint::max();
    return std::exchange(n_taken_, 0);
  }

  // Time at which the connection is closed; TimePoint::max() if nothing is being written.
  TimePoint deadline() const { return deadline_; }
  // Time at which the client will count as slow; TimePoint::max() if nothing is being written or the client already
  // counts as slow.
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

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Transport> transport, std::shared_ptr<ServerRoom> room);
  ~Connection();

  // REQUIRES: the connection is in ServerRoom::connections. Called once, by a network thread.
  void start();
  // Closes the connection, unless it is sending a response that its client reads.
  void give_way();
  // Closes the connection in any case.
  void end();
  // Requests gone() of the current exchange, so that the handler ends the exchange.
  void cancel_exchange();
  // Closes the connection as soon as no request is being read or answered.
  void close_when_idle();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class State { kHandshake, kReading, kAnswering, kLingering, kClosed };

  // Calls `act` in a callback of the transport; if it throws, the connection is closed.
  template <typename Act>
  void in_turn(Act&& act);

  void read_more();
  void on_read(bool ok, size_t n);
  void on_end_of_input();
  bool is_far_ahead() const;
  void mark_progress_of_body();
  void feed();
  void await_request();
  void check_head();
  void refuse(const Refusal& refusal, Headers headers = {});
  Reply& begin_reply();
  void await_reply();
  void begin_exchange();

  void pump();
  void write_out();
  void on_written(bool ok, size_t n);
  bool take_portion();
  void lose_slow_client();
  void finish_exchange();
  void linger();
  void close();

  void set_deadline(std::chrono::milliseconds from_now);
  TimePoint keep_alive_time(Reply::KeepAlive& keep_alive) const;
  void schedule();
  void on_time();
  void on_deadline();

  const std::shared_ptr<Transport> transport_;
  const std::shared_ptr<ServerRoom> room_;
  State state_ = State::kHandshake;

  std::array<char, (16u << 10)> bytes_read_;
  std::string ahead_;        // bytes read but not parsed yet
  bool is_reading_ = false;  // Transport::read() was called and is not done
  std::unique_ptr<RequestReader> reader_;
  bool request_begun_ = false;  // the first byte of the request was read
  TimePoint body_begin_;
  size_t n_body_seen_ = 0;  // size of the body when its deadline was last extended
  BodyAllowance allowance_;
  Admission admission_;
  size_t n_lingered_ = 0;

  uint64_t exchange_id_ = 0;
  std::shared_ptr<Reply> reply_;  // reply of the current exchange
  ResponseWriter response_;
  bool close_after_ = false;  // close after the current exchange
  Outbox outbox_;
  bool is_slow_ = false;  // the client does not read its response
  bool input_ended_ = false;

  TimePoint deadline_ = TimePoint::max();  // deadline of the current state
  // Time at which to check whether the client is connected, if nothing is read from it.
  TimePoint connection_check_at_ = TimePoint::max();
  TimePoint last_sent_;
  TimePoint alarm_ = TimePoint::max();  // time for which the transport's timer is set
};

}  // namespace ibid::http
