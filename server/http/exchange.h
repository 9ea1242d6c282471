// Exchange: one request of a client and its response, passed from the connection (server/http/connection.h) to the
// handler that answers. It is independent of sockets and of the protocols that use HTTP.
//
// A handler receives the exchange on a thread of the server and must return soon: it answers at once, or keeps the
// pointer and answers later from any thread. The response is either whole (respond()) or a stream (begin_stream(), any
// number of send(), end_stream()). If the last pointer is destroyed without a response, the client gets a 500; an
// unfinished stream is cut off, which the client detects. Thread-safe. No call waits for the network: bytes go into a
// queue of the connection, of bounded size.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ibid::http {

using Headers = std::vector<std::pair<std::string, std::string>>;  // names are spelled as the client wrote them

// Whitespace around the value of a header (RFC 9110, 5.6.3).
inline constexpr std::string_view kHeaderBlanks = " \t";

struct Request {
  uint64_t id = 0;     // number of the request on this server, for the log
  std::string method;  // "GET", "POST" ...
  std::string path;    // "/v1/models/a b": decoded, without the query; valid UTF-8 without NUL
  std::string query;   // query of the target, not decoded, without the "?"; empty: no query
  Headers headers;
  std::string body;             // body of the request, at most ServerOptions::max_body_bytes
  std::string key_namespace;    // namespace of the API key; if no key is required, one for all clients
  std::string named_namespace;  // name within key_namespace: the header x-ibid-namespace, if the key allows the header
  std::string client;           // the client's address, only for the log

  // Returns the first header of that name, case-insensitive; empty if there is no such header.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (equals_ignoring_case(key, name)) return value;
    }
    return {};
  }
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers = {};
};

// Usage and timings of an exchange, for the log and the metrics. Contains no text from a client or a model: only
// numbers, the name of a served model, and names of fields that the program knows.
struct AnswerFigures {
  std::string model;
  uint64_t n_prompt = 0, n_cached = 0, n_prefilled = 0, n_decoded = 0;  // numbers of tokens
  // Times of the first answer; queue_ms: time that the whole request waited in the queue.
  double queue_ms = 0, prefill_ms = 0, decode_ms = 0, ttft_ms = 0;
  double itl_ms = 0;  // mean time between two tokens of one answer, over all answers; 0: no answer has two tokens
  std::vector<std::string> ignored = {};  // fields of the request that had no effect: "tools[1]"
  size_t n_unknown_fields = 0;            // number of other fields without effect, whose names the client chose
  // Finish reason of each answer ("stop"); points to a literal of this program.
  std::vector<std::string_view> ended = {};
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Valid as long as the exchange.
  virtual const Request& request() const = 0;

  // The following functions REQUIRE: the response has not ended; begin_stream() is called only once.
  virtual void respond(Response response) = 0;
  virtual void begin_stream(int status, std::string_view content_type, Headers headers = {}) = 0;
  // Queues bytes of the stream. Returns false if they will not be sent, because the client has left or was disconnected
  // for reading too slowly; gone() is requested then.
  virtual bool send(std::string bytes) = 0;
  virtual void end_stream() = 0;
  // Sets bytes that are sent while the stream is idle (": ping\n\n"), so that the client and proxies keep the
  // connection. Empty: nothing is sent.
  virtual void set_keep_alive(std::string bytes, std::chrono::milliseconds every) = 0;

  // Sets figures for the log. Call before the response ends; the last call counts.
  virtual void set_figures(const AnswerFigures& /*figures*/) {}

  // Requested when the client has left or was disconnected, and when the server cancels all exchanges at a shutdown.
  virtual std::stop_token gone() const = 0;
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace ibid::http
