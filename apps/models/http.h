// GET over HTTP and HTTPS, as fetching models needs it: bytes as they come, from an offset on, with a token for the
// first host alone. libcurl does the work.
//
// Redirects are followed, at most kMaxRedirects; never from https to http. The token goes to the host that was named
// and to none that it redirects to. Nothing is kept and nothing is executed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid {

struct HttpRequest {
  std::string url;     // http:// or https://
  std::string token;   // empty: none
  uint64_t offset = 0;  // bytes of the answer that are there already
  std::stop_token stop;  // ends it within a second
};

struct HttpAnswer {
  long status = 0;                        // 200, 206, 404 ...; 0: no answer came
  std::optional<uint64_t> retry_after_s;  // what a 429 or 503 asks for
  std::string problem;                    // why it ended before its end; empty: it is whole
};

inline constexpr long kMaxRedirects = 5;

// Takes the next bytes of an answer with a status below 300. False: no more of it, which is told as a problem.
using TakeBytes = std::function<bool(long status, std::string_view bytes)>;

// Error: kInvalidArgument for a URL of another kind. What the network does is in the answer.
Result<HttpAnswer> http_get(const HttpRequest& request, const TakeBytes& take);

}  // namespace ibid
