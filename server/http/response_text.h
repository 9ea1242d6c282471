// A response as the bytes of HTTP/1.1.
#pragma once

#include <string>
#include <string_view>

#include "server/http/exchange.h"

namespace ibid::http {

struct Framing {
  enum class Body { kNone, kLength, kChunks, kUntilTheEnd };
  Body body = Body::kNone;
  size_t length = 0;        // kLength
  bool is_old = false;      // HTTP/1.0
  bool keep_alive = true;
};

// The status line and the headers, with the empty line behind them; the body of `response` is not looked at. Control
// characters in values become blanks, so that no value can end its line.
std::string response_head(const Response& response, const Framing& framing);

// `bytes` as one chunk. REQUIRES: they are not empty, which would end the body.
void append_chunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// "Not Found".
std::string_view reason_phrase(int status);

}  // namespace ibid::http
