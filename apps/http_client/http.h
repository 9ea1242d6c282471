// HTTP and HTTPS from the client's side: GET as fetching models needs it, with bytes as they come and from an offset
// on; and POST of a JSON text, as talking to a server needs it. libcurl does the work.
//
// A GET follows redirects, at most kMaxRedirects, and never from https to http; a POST follows none, so that nobody's
// messages go to a host that was not named. The token goes to the host that was named and to none that it redirects
// to. Nothing is kept and nothing is executed. Thread-safe: each call has a connection of its own, which is closed
// when the call returns. A host that is gone without a word is noticed within two minutes, also where an answer may be
// silent for ever. Certificates are trusted as the system does, or as the file in SSL_CERT_FILE says.
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
  std::string url;       // http:// or https://
  std::string token;     // empty: none
  uint64_t offset = 0;   // bytes of the answer that are there already
  std::stop_token stop;  // ends it at once
  std::string unix_socket = {};  // the path of a socket to connect to, whatever host the URL names; empty: none
  long silent_seconds = 30;      // no byte for so long: the connection is given up; 0: never
};

struct HttpAnswer {
  long status = 0;                        // 200, 206, 404 ...; 0: no answer came
  std::optional<uint64_t> retry_after_s;  // what a 429 or 503 asks for
  std::string content_type;
  std::string error_text;                 // what an answer with a status from 300 on says; its first 64 KiB
  std::string problem;                    // why it ended before its end; empty: it is whole
  bool is_untrusted = false;              // the problem is the host's certificate
  bool has_no_tls = false;                // the problem is that what answers speaks no TLS
};

inline constexpr long kMaxRedirects = 5;

// Takes the next bytes of an answer with a status below 300. False: no more of it, which is told as a problem.
using TakeBytes = std::function<bool(long status, std::string_view bytes)>;

// Error: kInvalidArgument for a URL of another kind. Failures of the network are in the answer.
Result<HttpAnswer> http_get(const HttpRequest& request, const TakeBytes& take);
// `json` is what is sent.
Result<HttpAnswer> http_post(const HttpRequest& request, const std::string& json, const TakeBytes& take);

}  // namespace ibid
