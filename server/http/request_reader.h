// RequestReader: parses the bytes of a client into one request, within limits. Independent of sockets: the same bytes
// give the same request however they are split. For one request of one connection; not thread-safe.
//
// Refuses ambiguous requests (RFC 9112): a body with both a length and chunks, a second Host header, a transfer
// encoding other than chunked. Compressed bodies are refused. Trailer fields after a chunked body are dropped.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace ibid::http {

// The target in the request line: "/v1/models?x=1", "http://host/path", "*".
struct RequestTarget {
  std::string path;       // decoded path: valid UTF-8 without NUL, begins with "/"; "*" is unchanged
  std::string query;      // query, not decoded, without the "?"
  std::string authority;  // host of a target that is a whole URL; used instead of the Host header
};

// Returns nullopt for a "%" without two hexadecimal digits, a NUL, text that is not UTF-8, or a text that is not a
// target. Linear time.
std::optional<RequestTarget> parse_target(std::string_view target);

// Returns the decoded values of the parameter `name` in a query ("a=1&b=c+d%20e"). A "%" without two hexadecimal digits
// stays as it is.
std::vector<std::string> query_values(std::string_view query, std::string_view name);

// True for text that may be in a log and in a header: 1 to 128 letters, digits and "-_.:/+=@,~".
bool is_request_id(std::string_view text);
// True for a header traceparent of W3C's Trace Context: "<2>-<32>-<16>-<2>" lower-case hexadecimal digits, the version
// not ff, neither id zero.
bool is_trace_parent(std::string_view text);

// Why a request is refused. The message contains no text from the client.
struct Refusal {
  int status = 0;  // 0: not refused
  std::string_view message = {};
  explicit operator bool() const { return status != 0; }
};

struct RequestHead {
  std::string method;
  RequestTarget target;
  Headers headers;
  std::string host;     // host of the target, else of the Host header; empty: an HTTP/1.0 request with neither
  bool is_old = false;  // the client speaks HTTP/1.0, which has no chunks
  bool keep_alive = false;
  bool expects_continue = false;  // the client waits for "100 Continue" before it sends the body
  bool has_body = false;
  std::string request_id = {};    // header x-request-id; empty: it is absent or not is_request_id()
  std::string trace_parent = {};  // header traceparent; empty: it is absent or not is_trace_parent()
};

class RequestReader {
 public:
  struct Limits {
    size_t max_header_bytes;
    size_t max_body_bytes;
  };
  enum class Progress {
    kMore,     // more bytes are needed
    kHead,     // head() is complete; returned once per request
    kWhole,    // the body is complete too; bytes not taken belong to the next request
    kRefused,  // the request is refused, see refusal(); nothing more can be read from this client
  };

  explicit RequestReader(const Limits& limits);
  ~RequestReader();

  // Parses bytes, and sets n_taken to the number of bytes consumed. Pass the other bytes again, followed by more bytes.
  // REQUIRES: neither kWhole nor kRefused was returned. Throws std::bad_alloc.
  Progress read(std::string_view bytes, size_t& n_taken);

  const RequestHead& head() const { return head_; }
  const Refusal& refusal() const { return refusal_; }
  size_t n_body_bytes() const;
  std::string take_body();  // returns the body that was read so far, and removes it from the reader

 private:
  struct Parser;

  Progress refuse(int status, std::string_view message);
  Progress take_head();
  Refusal check_framing();

  Limits limits_;
  std::unique_ptr<Parser> parser_;
  RequestHead head_;
  Refusal refusal_;
  size_t n_head_bytes_ = 0;
  bool has_begun_ = false;  // the first line of the request was parsed
  bool has_head_ = false;
};

}  // namespace ibid::http
