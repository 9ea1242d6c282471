// Bytes of HTTP requests, whole and in two pieces, through the reader, the request filter, the router, and the
// response head. The first byte is the length of the first piece.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "server/http/request_filter.h"
#include "server/http/request_reader.h"
#include "server/http/response_writer.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

namespace {

using http::RequestReader;
using Progress = RequestReader::Progress;

constexpr RequestReader::Limits kLimits = {.max_header_bytes = 4096, .max_body_bytes = 4096};

struct Reading {
  Progress progress = Progress::kMore;
  http::RequestHead head = {};
  std::string body = {};
  size_t n_taken = 0;
};

Reading read_pieces(const std::vector<std::string_view>& pieces) {
  RequestReader reader(kLimits);
  Reading reading;
  std::string ahead;
  for (const std::string_view piece : pieces) {
    ahead += piece;
    do {
      size_t n_taken = 0;
      reading.progress = reader.read(ahead, n_taken);
      CHECK_LE(n_taken, ahead.size());
      ahead.erase(0, n_taken);
      reading.n_taken += n_taken;
    } while (reading.progress == Progress::kHead);
    CHECK_LE(reader.n_body_bytes(), kLimits.max_body_bytes);
    if (reading.progress == Progress::kRefused) CHECK(reader.refusal().status >= 400);
    if (reading.progress != Progress::kMore) break;
  }
  reading.head = reader.head();
  reading.body = reader.take_body();
  return reading;
}

void check_target(const http::RequestTarget& target) {
  CHECK(utf8_is_valid(target.path));
  CHECK(target.path.find('\0') == std::string::npos);
  CHECK(target.path == "*" || target.path.starts_with('/'));
  std::string encoded;
  for (const char c : target.path) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%%%02x", static_cast<unsigned char>(c));
    encoded += c == '/' ? "/" : digits;
  }
  const auto again = http::parse_target(target.path == "*" ? "*" : encoded);
  CHECK(again && again->path == target.path);
}

const http::RequestFilter& filter() {
  static const http::RequestFilter the_filter = [] {
    const auto nothing = [](const http::ExchangePtr&, const http::PathParts&) {};
    http::Router router;
    router.add("GET", "/health", nothing, http::Access::kEverybody);
    router.add("POST", "/v1/models/{...}", nothing, http::Access::kEverybody);
    router.add("GET", "/v1/sessions/{id}/x/{n}", nothing, http::Access::kEverybody);
    router.add("POST", "/locked", nothing);
    return http::RequestFilter({.allowed_hosts = {"a.example"}, .allowed_origins = {"http://b.example"}, .port = 80},
                               {{"fuzzing-key", "mine"}}, std::move(router));
  }();
  return the_filter;
}

// The response must be exactly one head, whatever bytes of the client it contains.
void check_admission(const http::RequestHead& head) {
  const http::Admission admission = filter().admit(head, false);
  CHECK(admission.refusal || admission.status != 0 || admission.match.handler != nullptr);
  for (const std::string& part : admission.match.parts) CHECK(!part.empty());
  const auto head_with = [](const http::Headers& headers) {
    return http::response_head({.status = 200, .headers = headers}, {.body = http::Framing::Body::kLength});
  };
  const auto n_lines = [](const std::string& text) {
    CHECK(text.find("\r\n\r\n") == text.size() - 4);
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  };
  CHECK_EQ(n_lines(head_with(admission.headers)), n_lines(head_with({})) + admission.headers.size());
}

}  // namespace

void http_request(Input input) {
  Script script(input);
  const size_t cut_at = script.byte();
  const std::string_view text = text_of(script.rest());
  const size_t cut = std::min(cut_at, text.size());
  const Reading whole = read_pieces({text});
  const Reading parted = read_pieces({text.substr(0, cut), text.substr(cut)});
  if (!whole.head.method.empty() && whole.progress != Progress::kRefused) {
    check_target(whole.head.target);
    check_admission(whole.head);
  }
  // In pieces a request may be refused later, but it is complete if and only if the whole request is.
  CHECK((whole.progress == Progress::kWhole) == (parted.progress == Progress::kWhole));
  if (whole.progress != Progress::kWhole) return;
  CHECK(whole.head.method == parted.head.method && whole.head.headers == parted.head.headers);
  CHECK(whole.head.target.path == parted.head.target.path && whole.head.target.query == parted.head.target.query);
  CHECK(whole.head.keep_alive == parted.head.keep_alive && whole.head.host == parted.head.host);
  CHECK(whole.body == parted.body);
  CHECK_EQ(whole.n_taken, parted.n_taken);
}

}  // namespace ibid::fuzz
