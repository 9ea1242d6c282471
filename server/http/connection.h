// Connection: one client, from its first byte to its last. It reads a request (request_reader.h), asks the door whether
// it may pass (door.h), gives the exchange to its handler, and sends what that says (reply.h), one exchange after the
// other.
//
// It reads all the time, also while it is answered: that is how it sees a client go. What it reads then is the client's
// next request, or the client's end. It reads ahead up to a limit, and behind that looks now and then whether the
// client is still there. A client that sends no more may have gone: nothing more is computed for it, and its exchange
// says so. A whole response is still sent to it; whether it had gone is seen by whether that arrives (delivery.h).
//
// Everything happens in the callbacks of its transport, one at a time; give_way(), end() and close_when_idle() are for
// any thread. It owns its transport, whose callbacks own it; so it lives until they are over.
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

// Outbox: the bytes that are on their way to a client, and how much time it has for them. It moves none itself.
//
// There is a time until a client takes some of them, and one for all of them together: who takes a few bytes now and
// then would otherwise keep its place for as long as it likes.
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

  // The next bytes are appended here. REQUIRES: nothing is on its way.
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

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Transport> transport, std::shared_ptr<ServerRoom> room);
  ~Connection();

  // REQUIRES: it is in the table of the room. Called once, by a thread of the network.
  void start();
  // Closes, unless an exchange is under way whose client reads it.
  void give_way();
  // Closes, whatever is under way.
  void end();
  // The handler of the exchange that is under way is told to end it.
  void cancel_exchange();
  // Closes as soon as no request is under way, read or answered.
  void close_when_idle();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class State { kHandshake, kReading, kAnswering, kLingering, kClosed };

  // Calls `act` in a callback of the transport; what it throws closes the connection.
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
  std::string ahead_;        // read and not taken
  bool is_reading_ = false;  // the transport reads for us
  std::unique_ptr<RequestReader> reader_;
  bool request_begun_ = false;  // a byte of it has come
  TimePoint body_begin_;
  size_t n_body_seen_ = 0;  // bytes of the body when it last counted as coming
  BodyAllowance allowance_;
  Admission admission_;
  size_t n_lingered_ = 0;

  uint64_t exchange_id_ = 0;
  std::shared_ptr<Reply> reply_;  // of the exchange that is under way
  ResponseWriter response_;
  bool close_after_ = false;  // it
  Outbox outbox_;
  bool is_slow_ = false;  // the client does not read what it is answered
  bool input_ended_ = false;

  TimePoint deadline_ = TimePoint::max();  // of the state
  TimePoint look_at_ = TimePoint::max();   // when to see whether a client is there that is not read from
  TimePoint last_sent_;
  TimePoint alarm_ = TimePoint::max();  // when the transport wakes us
};

}  // namespace ibid::http
