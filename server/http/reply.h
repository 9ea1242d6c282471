// Reply: the queue of response bytes between a handler and its connection. Both hold the reply, and neither waits for
// the other. When both have released it, it reports the record of the exchange. Thread-safe. The queue of a stream is
// bounded; if a client reads too slowly, its stream is cut off.
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

// The outcome of an exchange, for a line of the log. Its only texts of a client are ids of the request and the path of
// a request that no route matches, of limited length and characters.
struct ExchangeRecord {
  uint64_t id = 0;
  std::string request_id = {};    // as RequestHead::request_id
  std::string trace_parent = {};  // as RequestHead::trace_parent
  std::string method = {};        // "GET"; "other" for a method that HTTP does not define
  std::string pattern = {};       // pattern of the route; empty: no route matched
  std::string unknown_path = {};  // as Admission::unknown_path
  std::string client = {};        // the client's address
  int status = 0;                 // 0: no response was sent
  size_t n_bytes_in = 0;          // size of the request's body
  size_t n_bytes_out = 0;         // size of the response, with head and framing
  double first_byte_ms = 0;       // time from the last byte of the request to the first byte of the response
  double total_ms = 0;            // time from the last byte of the request to the last byte of the response
  bool client_gone = false;       // the client left before all bytes of the response were delivered
  bool client_slow = false;       // the client was disconnected because it did not read the response
  AnswerFigures figures = {};
};

using OnRecord = std::function<void(const ExchangeRecord&)>;

class Reply {
 public:
  struct KeepAlive {
    std::string bytes = {};
    std::chrono::milliseconds every{0};
  };
  // The next part of a response, which the connection takes and sends.
  struct Portion {
    std::optional<Response> head = {};  // starts the response, and has the body if the response is not a stream
    bool is_stream = false;             // the head starts a stream
    std::string bytes = {};             // bytes of the stream
    bool is_last = false;               // the response ends with this portion
    bool is_cut = false;  // the handler released the reply before its end; without a head, no response was begun
  };

  // report: called once, when the last pointer to the reply is destroyed; may be empty. Must not throw.
  Reply(ExchangeRecord record, size_t max_queued_bytes, std::shared_ptr<const OnRecord> report);
  ~Reply();
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  // --- Called by the handler, as in Exchange.
  void respond(Response response);
  void begin_stream(int status, std::string_view content_type, Headers headers);
  bool send(std::string bytes);
  void end_stream();
  void set_keep_alive(std::string bytes, std::chrono::milliseconds every);
  void set_figures(const AnswerFigures& figures);
  void let_go();  // call when the handler makes no more calls
  std::stop_token gone() const { return gone_.get_token(); }

  // --- Called by the connection. The reply calls `wake` on any thread when there is a new portion: at most once until
  // the next take(), and never after forget_connection().
  void set_wake(std::function<void()> wake);
  Portion take();
  KeepAlive keep_alive() const;
  // Call when the taken portion was sent. n_bytes: its size with framing.
  void sent(size_t n_bytes);
  // Call when the client's input has ended, or when the client does not read (slow). For the handler a stream then
  // ends: further calls of send() return false. A whole response is still accepted. If bytes of the response are not
  // sent after this, the client counts as gone.
  void lose_client(bool slow = false);
  // Call if bytes that were sent did not arrive.
  void lose_bytes();
  // Call if the client needs no more of the stream. For the handler the stream ends; nothing counts as lost.
  void end_early();
  // Requests gone(), so that the handler ends the response. The client still receives what the handler sends.
  void cancel() { gone_.request_stop(); }
  // Call when the connection makes no more calls. Its `wake` is not called any more.
  void forget_connection();

 private:
  void wake_up();  // wake_up() and is_taken() REQUIRE: mutex_ is held
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
  bool is_sending_ = false;  // head or bytes were taken, and sent() was not called yet
  bool is_woken_ = false;
  size_t n_under_way_ = 0;  // bytes of the stream that were taken and are not sent yet
  KeepAlive keep_alive_;
};

}  // namespace ibid::http
