// HTTP client on libcurl: GET for model downloads, streamed and resumable at an offset, and POST of JSON for chat
// servers.
//
// GET follows at most kMaxRedirects redirects, never from https to http. POST follows none, so that messages are sent
// only to the named host. The token is not sent to hosts of redirects. There are no cookies and no caches. Thread-safe:
// each call opens a connection and closes it. A dead host is detected within two minutes even if silent_seconds is 0.
// Certificates are verified with the system's CA store, or the file in SSL_CERT_FILE.
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
  std::string url;               // http:// or https://
  std::string token;             // bearer token; empty: none is sent
  uint64_t offset = 0;           // number of first bytes of the body to skip, to resume a download
  std::stop_token stop;          // cancels the request at once
  std::string unix_socket = {};  // path of a Unix socket, used in place of the URL's host; empty: not used
  long silent_seconds = 30;      // timeout if no byte arrives; 0: no timeout
};

struct HttpAnswer {
  long status = 0;                        // 200, 206, 404 ...; 0: no response
  std::optional<uint64_t> retry_after_s;  // Retry-After of a response with status 429 or 503
  std::string content_type;
  std::string error_text;     // body of a response with status 300 or above, up to 64 KiB
  std::string problem;        // the reason why no complete response arrived; empty: the response is complete
  bool is_untrusted = false;  // the problem is that the host's certificate is not trusted
  bool has_no_tls = false;    // the problem is that the host does not speak TLS
};

inline constexpr long kMaxRedirects = 5;

// Receives the next bytes of a body with a status below 300. Returns false to abort, which is reported as `problem`.
using TakeBytes = std::function<bool(long status, std::string_view bytes)>;

// Requests a URL. Error: kInvalidArgument for an unsupported URL. Network failures are reported in the answer.
Result<HttpAnswer> http_get(const HttpRequest& request, const TakeBytes& take);
// Sends `json` as the body.
Result<HttpAnswer> http_post(const HttpRequest& request, const std::string& json, const TakeBytes& take);

}  // namespace ibid
