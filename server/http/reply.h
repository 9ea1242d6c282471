// Reply: what a handler has said and the connection has not sent yet. The handler's side and the connection's side each
// hold it, and neither waits for the other. When both have let go of it, it reports what became of the exchange.
//
// Thread-safe. A stream's bytes are bounded: who reads too slowly loses the stream.
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

// The fate of an exchange, for a line of the log. Nothing in it is a client's text.
struct ExchangeRecord {
  uint64_t id = 0;
  std::string method = {};   // "GET"; one that HTTP does not know is "other"
  std::string pattern = {};  // of the route; empty: it came to none
  std::string client = {};   // address
  int status = 0;            // 0: nothing was sent
  size_t n_bytes_in = 0;     // of the body
  size_t n_bytes_out = 0;    // with head and framing
  double first_byte_ms = 0;  // from the request's last byte to the first of the response
  double total_ms = 0;       // to the last
  bool client_gone = false;  // it went before all bytes of the answer were delivered
  bool client_slow = false;  // it lost its place because it did not read
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
    std::optional<Response> head = {};  // begins the response; its body is the whole response's
    bool is_stream = false;             // of the head
    std::string bytes = {};             // of the stream
    bool is_last = false;               // nothing comes behind it
    bool is_cut = false;                // the handler let go before it was done; without a head it gave no answer
  };

  // report: once, when the last pointer goes; may be empty. It must not throw.
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
  void let_go();  // no call of the handler's comes any more
  std::stop_token gone() const { return gone_.get_token(); }

  // The connection's side. wake: called, from any thread, when there is something to take and take() was called since
  // the last time; until the connection lets go.
  void set_wake(std::function<void()> wake);
  Portion take();
  KeepAlive keep_alive() const;
  // The bytes of the last portion are sent; with those of its framing it was so many.
  void sent(size_t n_bytes);
  // The client sends no more, or reads no more. Streams are over for the handler; a whole response is still taken. The
  // client counts as gone if bytes of the answer are then not sent.
  void lose_client(bool slow = false);
  // Bytes that were sent did not reach the client.
  void lose_bytes();
  // The client wants no more of the stream. It is over for the handler, and nothing is lost.
  void end_early();
  // The handler is told to end, while the client still hears what it says.
  void cancel() { gone_.request_stop(); }
  // The connection calls nothing any more, and is not woken.
  void forget_connection();

 private:
  void wake_up();  // REQUIRES: the lock is held, as for these
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
  size_t n_under_way_ = 0;  // bytes of the stream that were taken and not sent
  KeepAlive keep_alive_;
};

}  // namespace ibid::http
