#include "apps/http_client/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace ibid {

namespace {

constexpr long kConnectSeconds = 20;
constexpr int kLookAgainMs = 1000;
constexpr long kSilenceBeforeProbe = 30;  // seconds without data after which TCP keepalive probes are sent
constexpr long kProbeSeconds = 10;
constexpr size_t kMaxErrorBytes = 64u << 10;

struct Transfer {
  CURL* curl;
  const TakeBytes& take;
  std::string error_text;
};

size_t on_bytes(char* bytes, size_t size, size_t n, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  long status = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
  if (status < 300) return transfer.take(status, {bytes, size * n}) ? size * n : 0;
  transfer.error_text.append(bytes, std::min(size * n, kMaxErrorBytes - transfer.error_text.size()));
  return size * n;
}

bool starts_global() {
  static const bool ok = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return ok;
}

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Multi = std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)>;
using Lines = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

// Runs the transfer until it ends or `stop` is requested, which wakes a waiting thread at once.
CURLcode run(CURL* curl, std::stop_token stop) {
  const Multi multi(curl_multi_init(), curl_multi_cleanup);
  if (multi == nullptr || curl_multi_add_handle(multi.get(), curl) != CURLM_OK) return CURLE_FAILED_INIT;
  CURLcode code = CURLE_OK;
  {
    const std::stop_callback wake(stop, [&] { curl_multi_wakeup(multi.get()); });
    for (int n_running = 1; n_running > 0;) {
      if (stop.stop_requested()) {
        code = CURLE_ABORTED_BY_CALLBACK;
        break;
      }
      if (curl_multi_perform(multi.get(), &n_running) != CURLM_OK) {
        code = CURLE_RECV_ERROR;
        break;
      }
      if (n_running > 0) curl_multi_poll(multi.get(), nullptr, 0, kLookAgainMs, nullptr);
    }
  }
  int n_left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi.get(), &n_left)) {
    if (message->msg == CURLMSG_DONE) code = message->data.result;
  }
  curl_multi_remove_handle(multi.get(), curl);
  return code;
}

// Returns the hosts that are reached without a proxy: this machine, whatever the environment says, and the
// environment's own exceptions.
std::string hosts_without_proxy() {
  std::string hosts = "localhost,127.0.0.1,::1";
  const char* more = std::getenv("no_proxy");
  if (more == nullptr) more = std::getenv("NO_PROXY");
  return more == nullptr ? hosts : std::string(more) + "," + hosts;
}

void set_url(CURL* curl, const HttpRequest& request, bool follows) {
  const bool secure = request.url.starts_with("https://");
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, secure ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, follows ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kMaxRedirects);
  const std::string direct = hosts_without_proxy();
  curl_easy_setopt(curl, CURLOPT_NOPROXY, direct.c_str());
  const char* trusted = std::getenv("SSL_CERT_FILE");
  if (trusted != nullptr && *trusted != '\0') curl_easy_setopt(curl, CURLOPT_CAINFO, trusted);
  if (!request.unix_socket.empty()) curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, request.unix_socket.c_str());
  if (request.token.empty()) return;
  curl_easy_setopt(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
  curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, request.token.c_str());
}

// Sends the request. json: body of a POST; nullptr: sends a GET.
Result<HttpAnswer> exchange(const HttpRequest& request, const std::string* json, const TakeBytes& take) {
  if (!request.url.starts_with("https://") && !request.url.starts_with("http://")) {
    return Status(ErrorCode::kInvalidArgument, request.url + ": expected a URL that begins with https:// or http://");
  }
  const Easy curl(starts_global() ? curl_easy_init() : nullptr, curl_easy_cleanup);
  if (curl == nullptr) return Status(ErrorCode::kIo, "libcurl cannot be started");
  Transfer transfer{curl.get(), take, {}};
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set_url(curl.get(), request, json == nullptr);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_TCP_KEEPIDLE, kSilenceBeforeProbe);
  set(CURLOPT_TCP_KEEPINTVL, kProbeSeconds);
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  if (request.silent_seconds > 0) {
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, request.silent_seconds);
  }
  set(CURLOPT_USERAGENT, "ibid");
  if (request.offset > 0) set(CURLOPT_RANGE, (std::to_string(request.offset) + "-").c_str());
  Lines lines(nullptr, curl_slist_free_all);
  if (json != nullptr) {
    // Disable "Expect: 100-continue", to which some servers never respond. The body is then sent at once.
    lines.reset(curl_slist_append(curl_slist_append(nullptr, "Content-Type: application/json"), "Expect:"));
    set(CURLOPT_HTTPHEADER, lines.get());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json->size()));
    set(CURLOPT_POSTFIELDS, json->c_str());
  }
  set(CURLOPT_WRITEFUNCTION, on_bytes);
  set(CURLOPT_WRITEDATA, &transfer);
  const CURLcode code = run(curl.get(), request.stop);

  HttpAnswer answer;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RETRY_AFTER, &retry_after);
  if (retry_after > 0) answer.retry_after_s = static_cast<uint64_t>(retry_after);
  const char* content_type = nullptr;
  curl_easy_getinfo(curl.get(), CURLINFO_CONTENT_TYPE, &content_type);
  if (content_type != nullptr) answer.content_type = content_type;
  answer.error_text = std::move(transfer.error_text);
  if (code != CURLE_OK) answer.problem = curl_easy_strerror(code);
  answer.is_untrusted = code == CURLE_PEER_FAILED_VERIFICATION;
  answer.has_no_tls = code == CURLE_SSL_CONNECT_ERROR;
  return answer;
}

}  // namespace

Result<HttpAnswer> http_get(const HttpRequest& request, const TakeBytes& take) {
  return exchange(request, nullptr, take);
}

Result<HttpAnswer> http_post(const HttpRequest& request, const std::string& json, const TakeBytes& take) {
  return exchange(request, &json, take);
}

}  // namespace ibid
