#include "apps/models/hub_download.h"

#include <algorithm>
#include <utility>

#include "apps/http_client/http.h"

namespace ibid {

namespace {

constexpr size_t kMaxListingBytes = 16u << 20;
constexpr int kMaxAttempts = 6;  // maximum consecutive attempts without progress
constexpr uint64_t kLongestWaitSeconds = 60;

// Returns an error if retrying cannot change the response; ok: retry.
Status refusal(const HttpAnswer& answer, const HubAccess& access, const std::string& what) {
  switch (answer.status) {
    case 401:
    case 403:
      return {ErrorCode::kUnsupported,
              what + ": the hub " +
                  (access.token.empty() ? "requires a token, or has no such repository: set HF_TOKEN to one that may "
                                          "read it (some models require that their terms are accepted on the hub first)"
                                        : "does not let the token of HF_TOKEN read it")};
    case 404: return {ErrorCode::kNotFound, what + ": not found on " + access.endpoint};
    default: break;
  }
  const bool may_pass = answer.status == 408 || answer.status == 416 || answer.status == 429 || answer.status >= 500;
  if (answer.status >= 400 && !may_pass) {
    return {ErrorCode::kIo, what + ": the hub answers " + std::to_string(answer.status)};
  }
  return {};
}

Status interrupted() {
  return {ErrorCode::kCancelled, "interrupted; the partial download is kept: run the same command to resume"};
}

Status given_up(const HttpAnswer& answer, const std::string& what) {
  const std::string why = answer.status >= 400     ? "the hub answers " + std::to_string(answer.status)
                          : answer.problem.empty() ? "the connection ends before the file does"
                                                   : answer.problem;
  return {ErrorCode::kIo, what + ": " + why + "; the partial download is kept: run the same command to resume"};
}

// Waits before attempt n, counted from 1. Returns false if the hub demands too long a wait.
bool wait_before(int n, const HttpAnswer& answer, const HubAccess& access) {
  if (answer.retry_after_s && *answer.retry_after_s > kLongestWaitSeconds) return false;
  access.wait(answer.retry_after_s ? static_cast<double>(*answer.retry_after_s) : 0.25 * (1 << n));
  return true;
}

}  // namespace

Result<std::string> fetch_text(const HubAccess& access, const std::string& url, const std::string& what) {
  for (int attempt = 1;; ++attempt) {
    std::string text;
    const auto take = [&](long, std::string_view bytes) {
      text += bytes;
      return text.size() <= kMaxListingBytes;
    };
    TRY_ASSIGN(const HttpAnswer answer, http_get({url, access.token, 0, access.stop}, take));
    if (access.stop.stop_requested()) return interrupted();
    if (text.size() > kMaxListingBytes) {
      return Status(ErrorCode::kLimitExceeded, what + ": the hub's answer exceeds 16 MiB");
    }
    if (answer.status == 200 && answer.problem.empty()) return text;
    TRY(refusal(answer, access, what));
    if (attempt == kMaxAttempts || !wait_before(attempt, answer, access)) return given_up(answer, what);
  }
}

Status fetch_into(PartFile& part, const HubAccess& access, const HubFile& file, const std::string& url,
                  const std::function<void(int64_t)>& moved) {
  const auto restart = [&] {
    moved(-static_cast<int64_t>(part.size()));
    return part.restart();
  };
  uint64_t most = part.size();  // largest size of the part so far; an attempt without a larger size made no progress
  bool was_at_end = false;
  for (int attempt = 1; part.size() < file.size;) {
    bool is_first = true, too_much = false;
    const auto take = [&](long status, std::string_view bytes) {
      // Restart the part, because a server without range support sends the whole file.
      if (std::exchange(is_first, false) && status != 206 && part.size() > 0 && !restart().ok()) return false;
      too_much = bytes.size() > file.size - part.size();
      if (too_much || !part.append(bytes)) return false;
      moved(static_cast<int64_t>(bytes.size()));
      return true;
    };
    TRY_ASSIGN(const HttpAnswer answer, http_get({url, access.token, part.size(), access.stop}, take));
    TRY(part.status());
    if (access.stop.stop_requested()) return interrupted();
    if (too_much) {
      (void)restart();
      return {ErrorCode::kMismatch, file.path + ": the file is larger than the " + std::to_string(file.size) +
                                        " bytes that the hub lists; nothing was kept"};
    }
    TRY(refusal(answer, access, file.path));
    if (answer.status == 416) {
      TRY(restart());
      if (std::exchange(was_at_end, true)) {
        return {ErrorCode::kMismatch, file.path + ": the file is smaller than the " + std::to_string(file.size) +
                                          " bytes that the hub lists; nothing was kept"};
      }
    }
    attempt = part.size() > most ? 1 : attempt + 1;
    most = std::max(most, part.size());
    if (part.size() == file.size) break;
    if (attempt > kMaxAttempts || !wait_before(attempt - 1, answer, access)) return given_up(answer, file.path);
  }
  return {};
}

}  // namespace ibid
