// ResponseWriter: turns the portions of a Reply (reply.h) into bytes for the client: head, chunks, end. Independent of
// sockets. For one response.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/reply.h"

namespace ibid::http {

struct Framing {
  enum class Body { kNone, kLength, kChunks, kUntilTheEnd };
  Body body = Body::kNone;
  size_t length = 0;    // used by kLength
  bool is_old = false;  // the response is for a client of HTTP/1.0
  bool keep_alive = true;
};

// Returns the status line, the headers and the empty line; ignores the body of `response`. Replaces control characters
// in values by blanks, so that no value can end its line.
std::string response_head(const Response& response, const Framing& framing);

// Appends `bytes` as one chunk. REQUIRES: `bytes` is not empty, because an empty chunk ends the body.
void append_chunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

class ResponseWriter {
 public:
  struct Options {
    bool is_old = false;     // the client speaks HTTP/1.0: a stream ends when the connection is closed
    bool head_only = false;  // the request is HEAD: no body is sent
    bool keep_alive = true;
    Headers headers = {};  // headers in addition to those of the handler
  };

  ResponseWriter() = default;
  explicit ResponseWriter(Options options) : options_(std::move(options)) {}

  // Appends the bytes of a portion to `out`. Returns false if the response is cut off: close the connection then, so
  // that the client detects the cut.
  bool add(Reply::Portion portion, std::string& out);
  // Appends to a stream bytes that do not come from the handler. REQUIRES: is_streaming().
  void add_to_stream(std::string_view bytes, std::string& out) const;

  bool has_head() const { return has_head_; }
  bool is_streaming() const { return has_head_ && !is_whole_; }
  bool is_whole() const { return is_whole_; }
  // True if the connection can be used for another request after this response.
  bool keep_alive() const { return options_.keep_alive; }

 private:
  void add_head(Response response, bool is_stream, std::string& out);

  Options options_;
  bool has_head_ = false;
  bool is_whole_ = false;
  bool in_chunks_ = false;
};

}  // namespace ibid::http
