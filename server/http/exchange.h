// Exchange: one request of a client and its response, between the connection (server/http/connection.h) and the handler
// that answers. It knows no protocol above HTTP and no sockets.
//
// A handler gets the exchange on a thread of the server, and returns soon: it answers at once, or keeps the pointer and
// answers later from any thread. The response is either whole (respond()) or a stream (begin_stream(), any number of
// send(), end_stream()). An exchange whose last pointer goes without an answer gives a 500; a stream that is left so is
// cut off, which its client sees.
//
// Thread-safe. Nothing here waits for the network: bytes go into a queue of the connection, of bounded size.
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

using Headers = std::vector<std::pair<std::string, std::string>>;  // names as they were written

// Blanks around the value of a header (RFC 9110, 5.6.3).
inline constexpr std::string_view kHeaderBlanks = " \t";

struct Request {
  uint64_t id = 0;     // counts the requests of this server; in logs, and in the header x-request-id
  std::string method;  // "GET", "POST" ...
  std::string path;    // "/v1/models/a b": decoded, without the query; valid UTF-8 without NUL
  std::string query;   // as it was sent, behind the "?"; empty: none
  Headers headers;
  std::string body;           // at most the server's limit
  std::string key_namespace;  // of the API key; of everybody where no key is needed
  std::string client;         // address, for the log alone

  // The first header of that name, in any case of letters; empty: the request has no such header.
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

// Cost of the answers of an exchange, for the log and the metrics: numbers and the name of a model that is served, and
// nothing that a client or a model said.
struct AnswerFigures {
  std::string model;
  uint64_t n_prompt = 0, n_cached = 0, n_prefilled = 0, n_decoded = 0;  // ids
  double queue_ms = 0, prefill_ms = 0, decode_ms = 0, ttft_ms = 0;      // of the first answer, but for the queue
  double itl_ms = 0;                         // between two ids of one answer, the mean of all answers; 0: none has two
  std::vector<std::string_view> ended = {};  // why each answer did, in words of this program ("stop", "length")
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  // As long as the exchange.
  virtual const Request& request() const = 0;

  // REQUIRES of all: no response has ended yet; streams begin once.
  virtual void respond(Response response) = 0;
  virtual void begin_stream(int status, std::string_view content_type, Headers headers = {}) = 0;
  // Queues bytes of the stream. False: nobody will read them, because the client has gone, or did not read what was
  // queued for it until its place was lost; gone() is requested then.
  virtual bool send(std::string bytes) = 0;
  virtual void end_stream() = 0;
  // Sent while nothing else is, so that a client and what is between can tell that the stream lives (": ping\n\n").
  // Empty: nothing is.
  virtual void set_keep_alive(std::string bytes, std::chrono::milliseconds every) = 0;

  // For the log, before the response ends; the last call counts.
  virtual void set_figures(AnswerFigures figures) { (void)figures; }

  // Requested when the client has gone, when the total time is over, or when the server ends at once.
  virtual std::stop_token gone() const = 0;
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace ibid::http
