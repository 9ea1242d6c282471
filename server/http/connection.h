// Connection: one client, from its first byte to its last. It reads a request (request_reader.h), asks who may pass
// (door.h), gives the exchange to its handler, and sends what that says (reply.h), one exchange after the other.
//
// It reads all the time, also while it is answered: that is how it sees a client go. What it reads then is the client's
// next request, or the client's end. It reads ahead up to a limit, and behind that looks now and then whether the
// client is still there. A client that sends no more may have gone: nothing more is computed for it, and its exchange
// says so. A whole response is still sent to it; whether it had gone is seen by whether that arrives (delivery.h).
//
// Everything happens in the callbacks of its transport, one at a time; give_way(), end() and close_when_idle() are for
// any thread. It owns its transport, whose callbacks own it; so it lives until they are over.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http/body_budget.h"
#include "server/http/door.h"
#include "server/http/outbox.h"
#include "server/http/reply.h"
#include "server/http/request_reader.h"
#include "server/http/response_writer.h"
#include "server/http/transport.h"

namespace ibid::http {

struct ServerRoom;

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
  std::string ahead_;                       // read and not taken
  bool is_reading_ = false;                 // the transport reads for us
  std::unique_ptr<RequestReader> reader_;
  bool request_begun_ = false;              // a byte of it has come
  TimePoint body_begin_;
  size_t n_body_seen_ = 0;                  // bytes of the body when it last counted as coming
  BodyAllowance allowance_;
  Admission admission_;
  size_t n_lingered_ = 0;

  uint64_t exchange_id_ = 0;
  std::shared_ptr<Reply> reply_;            // of the exchange that is under way
  ResponseWriter response_;
  bool close_after_ = false;                // it
  Outbox outbox_;
  bool is_slow_ = false;                    // the client does not read what it is answered
  bool input_ended_ = false;

  TimePoint deadline_ = TimePoint::max();   // of the state
  TimePoint look_at_ = TimePoint::max();    // when to see whether a client is there that is not read from
  TimePoint last_sent_;
  TimePoint alarm_ = TimePoint::max();      // when the transport wakes us
};

}  // namespace ibid::http
