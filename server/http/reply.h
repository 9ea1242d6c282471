// Reply: the queue of response bytes between a handler and its connection. Both sides hold it, and neither waits for
// the other. When both have released it, it reports the record of the exchange.
//
// Thread-safe. The bytes of a stream are bounded: a client that reads too slowly loses the stream.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "server/http/exchange.h"

namespace ibid::http {

// The outcome of an exchange, for a line of the log. Contains no text of the client.
struct ExchangeRecord {
  uint64_t id = 0;
  std::string method = {};   // "GET"; "other" if HTTP does not define it
  std::string pattern = {};  // of the route; empty: none matched
  std::string client = {};   // address
  int status = 0;            // 0: no response was sent
  size_t n_bytes_in = 0;     // of the body
  size_t n_bytes_out = 0;    // including head and framing
  double first_byte_ms = 0;  // from the request's last byte to the first of the response
  double total_ms = 0;       // until the last byte of the response
  bool client_gone = false;  // it left before all bytes of the response were delivered
  bool client_slow = false;  // it was disconnected because it did not read
  AnswerFigures figures = {};
};

using OnRecord = std::function<void(const ExchangeRecord&)>;

class Reply {
 public:
  struct KeepAlive {
    std::string bytes = {};
    std::chrono::milliseconds every{0};
  };
  // The next bytes for the connection to send.
  struct Portion {
    std::optional<Response> head = {};  // starts the response; its body is that of a whole response
    bool is_stream = false;             // the head starts a stream
    std::string bytes = {};             // of the stream
    bool is_last = false;               // the response ends with it
    bool is_cut = false;                // the handler released it before its end; without a head there is no response
  };

  // report: called once, when the last pointer is destroyed; may be empty. Must not throw.
  Reply(ExchangeRecord record, size_t max_queued_bytes, std::shared_ptr<const OnRecord> report);
  ~Reply();
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  // The handler's side, as in Exchange.
  void respond(Response response);
  void begin_stream(int status, std::string_view content_type, Headers headers);
  bool send(std::string bytes);
  void end_stream();
  void set_keep_alive(std::string bytes, std::chrono::milliseconds every);
  void set_figures(AnswerFigures figures);
  void let_go();  // the handler makes no more calls
  std::stop_token gone() const { return gone_.get_token(); }

  // The connection's side. wake: called on any thread when there is a new portion, once for each take(), until
  // forget_connection().
  void set_wake(std::function<void()> wake);
  Portion take();
  KeepAlive keep_alive() const;
  // Call when the last portion was sent; n_bytes: with its framing.
  void sent(size_t n_bytes);
  // Call when the client's input has ended, or when it does not read. The handler cannot go on with a stream; a whole
  // response is still accepted. If bytes of the response stay unsent after this, the client counts as gone.
  void lose_client(bool slow = false);
  // Bytes that were sent were not delivered.
  void lose_bytes();
  // The client wants no more of the stream, which ends for the handler. Nothing counts as lost.
  void end_early();
  // Requests gone(), so that the handler ends the response; the client still receives what it sends.
  void cancel() { gone_.request_stop(); }
  // The connection makes no more calls, and is not woken any more.
  void forget_connection();

 private:
  void wake_up();  // REQUIRES of both: the lock is held
  bool is_taken() const { return !next_.head && next_.bytes.empty() && !next_.is_cut && !is_sending_; }

  const size_t max_queued_bytes_;
  const std::shared_ptr<const OnRecord> report_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::stop_source gone_;

  mutable std::mutex mutex_;
  ExchangeRecord record_;
  std::function<void()> wake_;
  Portion next_;
  bool has_begun_ = false;
  bool is_stream_ = false;
  bool has_ended_ = false;
  bool is_lost_ = false;
  bool has_lost_bytes_ = false;
  bool wants_no_more_ = false;
  bool is_sending_ = false;  // head or bytes were taken, and sent() has not been called yet
  bool is_woken_ = false;
  size_t n_under_way_ = 0;  // bytes of the stream that were taken and not sent yet
  KeepAlive keep_alive_;
};

}  // namespace ibid::http
