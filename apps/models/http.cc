#include "apps/models/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

namespace ibid {

namespace {

constexpr long kConnectSeconds = 20;
constexpr long kSilentSeconds = 30;  // no byte for so long: the connection is given up

struct Transfer {
  CURL* curl;
  const TakeBytes& take;
};

size_t on_bytes(char* bytes, size_t size, size_t n, void* context) {
  const auto& transfer = *static_cast<Transfer*>(context);
  long status = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 300) return size * n;  // what an error says is not for anybody
  return transfer.take(status, {bytes, size * n}) ? size * n : 0;
}

// Called by libcurl at least once a second. Not 0: no more of it.
int on_time(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::stop_token*>(context)->stop_requested() ? 1 : 0;
}

bool starts_global() {
  static const bool ok = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return ok;
}

}  // namespace

Result<HttpAnswer> http_get(const HttpRequest& request, const TakeBytes& take) {
  const bool secure = request.url.starts_with("https://");
  if (!secure && !request.url.starts_with("http://")) {
    return Status(ErrorCode::kInvalidArgument, request.url + ": wanted a URL that begins with https:// or http://");
  }
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(starts_global() ? curl_easy_init() : nullptr,
                                                                 curl_easy_cleanup);
  if (curl == nullptr) return Status(ErrorCode::kIo, "libcurl cannot be started");
  Transfer transfer{curl.get(), take};
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, secure ? "https" : "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, kMaxRedirects);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  set(CURLOPT_USERAGENT, "ibid");
  if (request.offset > 0) set(CURLOPT_RANGE, (std::to_string(request.offset) + "-").c_str());
  if (!request.token.empty()) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(CURLOPT_XOAUTH2_BEARER, request.token.c_str());
  }
  set(CURLOPT_WRITEFUNCTION, on_bytes);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_XFERINFOFUNCTION, on_time);
  set(CURLOPT_XFERINFODATA, &request.stop);
  set(CURLOPT_NOPROGRESS, 0L);
  const CURLcode code = curl_easy_perform(curl.get());

  HttpAnswer answer;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RETRY_AFTER, &retry_after);
  if (retry_after > 0) answer.retry_after_s = static_cast<uint64_t>(retry_after);
  if (code != CURLE_OK) answer.problem = curl_easy_strerror(code);
  return answer;
}

}  // namespace ibid
