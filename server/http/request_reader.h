// RequestReader: bytes of a client to a request, within limits. It knows no sockets: the same bytes give the same
// request however they are cut. One is for one request of one connection, and one thread at a time.
//
// It refuses what could be read in two ways (RFC 9112): a body with a length and in chunks, a second Host, chunks that
// are not the only transfer encoding. It reads no compressed bodies. Fields behind a body in chunks are dropped.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace ibid::http {

// The target of a request, as its first line has it: "/v1/models?x=1", "http://host/path", "*".
struct RequestTarget {
  std::string path;       // decoded: valid UTF-8 without NUL, begins with "/"; "*" as it is
  std::string query;      // as it was sent, without the "?"
  std::string authority;  // of a target that is a whole URL: it goes before the Host header
};

// nullopt: a "%" without two hexadecimal digits, a NUL, text that is not UTF-8, or no target at all. Linear time.
std::optional<RequestTarget> parse_target(std::string_view target);

// The values of that name in a query ("a=1&b=c+d%20e"), decoded. A "%" without two hexadecimal digits is left as it is.
std::vector<std::string> query_values(std::string_view query, std::string_view name);

// Why a request is not answered by its handler. The message is ours alone: nothing in it is the client's.
struct Refusal {
  int status = 0;  // 0: it is not refused
  std::string_view message = {};
  explicit operator bool() const { return status != 0; }
};

struct RequestHead {
  std::string method;
  RequestTarget target;
  Headers headers;
  std::string host;     // of the target, else of the Host header; empty: HTTP/1.0 without one
  bool is_old = false;  // HTTP/1.0, which knows no chunks
  bool keep_alive = false;
  bool expects_continue = false;  // waits for "100 Continue" before it sends its body
  bool has_body = false;
};

class RequestReader {
 public:
  struct Limits {
    size_t max_header_bytes;
    size_t max_body_bytes;
  };
  enum class Progress {
    kMore,     // all bytes were taken that can be; more are wanted
    kHead,     // head() is there, for the first time
    kWhole,    // so is the body; what was not taken belongs to the next request
    kRefused,  // refusal() says why; nothing more can be read from this client
  };

  explicit RequestReader(const Limits& limits);
  ~RequestReader();

  // Takes bytes from the front of `bytes`, and says how many. What it leaves is to come again, with more behind it.
  // REQUIRES: neither kWhole nor kRefused yet. Throws std::bad_alloc.
  Progress read(std::string_view bytes, size_t& n_taken);

  const RequestHead& head() const { return head_; }
  const Refusal& refusal() const { return refusal_; }
  size_t n_body_bytes() const;
  std::string take_body();  // as much of it as was read

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
  bool has_begun_ = false;  // its first line was taken
  bool has_head_ = false;
};

}  // namespace ibid::http
