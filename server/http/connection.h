// Connection: one client connection, from accept to close. For each exchange, one after the other, it reads a request
// (request_reader.h), lets the door check it (door.h), passes the exchange to its handler, and sends the response
// (reply.h).
//
// It also reads while a response is sent, to detect that the client has left: the bytes are the client's next request,
// or the end of its input. It reads ahead up to a limit; beyond that it checks periodically whether the client is still
// connected. If the client's input has ended, the client may have left, so gone() is requested: nothing more is
// computed. A whole response is still sent; its delivery decides whether the client was gone (Delivery).
//
// All work is done in the callbacks of its transport, one at a time; give_way(), end() and close_when_idle() may be
// called from any thread. It owns its transport, whose callbacks own it, so it lives until the last callback is done.
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

// Outbox: the bytes to be sent to a client, and the deadlines for it to take them. It does no I/O.
//
// One deadline is for the next bytes to be taken, one for all of them: otherwise a client that takes a few bytes now
// and then could keep its connection as long as it likes.
class Outbox {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // patience: limit until the next bytes are taken; for all bytes, patience and one second per bytes_per_second. After
  // `stall` a client counts as slow.
  struct Pace {
    std::chrono::milliseconds patience;
    size_t bytes_per_second;
    std::chrono::milliseconds stall;
  };

  explicit Outbox(const Pace& pace) : pace_(pace) {}

  // Append the next bytes here. REQUIRES: is_empty().
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
  // Call when it has ended, with the number of bytes that were written. Returns the size of all bytes if none is left,
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

  // When the client loses its connection; TimePoint::max() if nothing is being written.
  TimePoint deadline() const { return deadline_; }
  // When the client counts as slow; TimePoint::max() if nothing is being written, or if it counts as slow already.
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

  // REQUIRES: it is in the connection table of the room. Called once, by a network thread.
  void start();
  // Closes, unless it is sending a response that its client reads.
  void give_way();
  // Closes in any case.
  void end();
  // Requests gone() of the current exchange, so that its handler ends it.
  void cancel_exchange();
  // Closes when no request is being read or answered.
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
  void pass_door();
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

  std::array<char, 16 * 1024> bytes_read_;
  std::string ahead_;        // read and not parsed yet
  bool is_reading_ = false;  // a read of the transport is pending
  std::unique_ptr<RequestReader> reader_;
  bool request_begun_ = false;  // its first byte was read
  TimePoint body_begin_;
  size_t n_body_seen_ = 0;  // bytes of the body at its last progress
  BodyAllowance allowance_;
  Admission admission_;
  size_t n_lingered_ = 0;

  uint64_t exchange_id_ = 0;
  std::shared_ptr<Reply> reply_;  // of the current exchange
  ResponseWriter response_;
  bool close_after_ = false;  // close after the current exchange
  Outbox outbox_;
  bool is_slow_ = false;  // the client does not read its response
  bool input_ended_ = false;

  TimePoint deadline_ = TimePoint::max();  // of the state
  TimePoint look_at_ = TimePoint::max();   // when to check whether a client is connected that is not read from
  TimePoint last_sent_;
  TimePoint alarm_ = TimePoint::max();  // when the transport's timer fires
};

}  // namespace ibid::http
