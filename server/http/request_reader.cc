#include "server/http/request_reader.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <limits>
#include <utility>

#include "base/percent_encoding.h"
#include "base/text.h"
#include "base/utf8.h"

namespace ibid::http {

namespace {

// Removes "http://host:80" from the target and returns "host:80"; nullopt if a scheme is not followed by a host.
std::optional<std::string> take_authority(std::string_view& target) {
  const size_t scheme = target.starts_with("http://") ? 7 : target.starts_with("https://") ? 8 : 0;
  if (scheme == 0) return std::string();
  const size_t end = std::min(target.find_first_of("/?", scheme), target.size());
  if (end == scheme) return std::nullopt;
  std::string authority(target.substr(scheme, end - scheme));
  target.remove_prefix(end);
  return authority;
}

}  // namespace

std::optional<RequestTarget> parse_target(std::string_view target) {
  if (target == "*") return RequestTarget{.path = "*"};
  RequestTarget parsed;
  std::optional<std::string> authority = take_authority(target);
  if (!authority) return std::nullopt;
  parsed.authority = *std::move(authority);
  if (target.find('#') != std::string_view::npos) return std::nullopt;
  const size_t question = target.find('?');
  if (question != std::string_view::npos) parsed.query = target.substr(question + 1);
  std::string_view path = target.substr(0, question);
  // "http://host" means the path "/" (RFC 9112, section 3.2.1).
  if (path.empty() && !parsed.authority.empty()) path = "/";
  if (!path.starts_with('/')) return std::nullopt;
  std::optional<std::string> decoded = percent_decoded(path);
  if (!decoded || decoded->find('\0') != std::string::npos || !utf8_is_valid(*decoded)) return std::nullopt;
  parsed.path = *std::move(decoded);
  return parsed;
}

std::vector<std::string> query_values(std::string_view query, std::string_view name) {
  std::vector<std::string> values;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) != name) continue;
    std::string value(pair.substr(std::min(pair.size(), equals + 1)));
    std::replace(value.begin(), value.end(), '+', ' ');
    std::optional<std::string> decoded = percent_decoded(value);
    values.push_back(decoded ? *std::move(decoded) : std::move(value));
  }
  return values;
}

bool is_request_id(std::string_view text) {
  constexpr size_t kMaxId = 128;
  constexpr std::string_view kMarks = "-_.:/+=@,~";
  return !text.empty() && text.size() <= kMaxId && std::ranges::all_of(text, [&](char c) {
    const char letter = lower_ascii(c);
    return (letter >= 'a' && letter <= 'z') || is_decimal_digit(c) || kMarks.find(c) != kMarks.npos;
  });
}

bool is_trace_parent(std::string_view text) {
  constexpr std::string_view kForm = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";
  if (text.size() != kForm.size() || text.starts_with("ff")) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (kForm[i] == '-' ? text[i] != '-' : hex_digit(text[i]) < 0 || lower_ascii(text[i]) != text[i]) return false;
  }
  const auto is_zero = [&](size_t begin, size_t n) {
    return text.substr(begin, n).find_first_not_of('0') == text.npos;
  };
  return !is_zero(3, 32) && !is_zero(36, 16);
}

namespace {

namespace beast = boost::beast::http;
using BoostError = boost::system::error_code;

constexpr size_t kMaxFields = 128;
constexpr size_t kMaxMethod = 16;
constexpr size_t kLastChunkBytes = 5;  // length of "0\r\n\r\n"

// A body that grows with the bytes received. Beast's own body reserves the size that the client announces.
struct GrowingBody {
  using value_type = std::string;
  class reader {  // NOLINT(readability-identifier-naming): Beast requires this name
   public:
    template <bool isRequest, typename Fields>
    reader(beast::header<isRequest, Fields>&, std::string& text) : text_(text) {}
    void init(const boost::optional<uint64_t>&, BoostError& error) { error = {}; }
    template <typename Buffers>
    size_t put(const Buffers& buffers, BoostError& error) {
      error = {};
      size_t n = 0;
      for (auto part = boost::asio::buffer_sequence_begin(buffers); part != boost::asio::buffer_sequence_end(buffers);
           ++part) {
        const boost::asio::const_buffer bytes(*part);
        text_.append(static_cast<const char*>(bytes.data()), bytes.size());
        n += bytes.size();
      }
      return n;
    }
    void finish(BoostError& error) { error = {}; }

   private:
    std::string& text_;
  };
};

std::string_view view_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Checks the bytes before the first line is complete, because a client of another protocol might never end its line.
Refusal check_beginning(std::string_view bytes) {
  if (bytes.starts_with('\x16')) return {400, "this port serves plain HTTP, but the client sent TLS: use http://"};
  for (size_t i = 0; i < std::min(bytes.size(), kMaxMethod + 1); ++i) {
    const char c = bytes[i];
    if (c == ' ' && i > 0) return {};
    if ((c < 'A' || c > 'Z') && c != '-' && c != '_') return {400, "the request does not begin with an HTTP method"};
  }
  if (bytes.size() > kMaxMethod) return {400, "the request does not begin with an HTTP method"};
  return {};
}

Refusal refusal_of(const BoostError& error) {
  if (error == beast::error::header_limit || error == beast::error::buffer_overflow) {
    return {431, "the request's head is too long"};
  }
  if (error == beast::error::body_limit) return {413, "the request's body is too long"};
  if (error == beast::error::bad_chunk || error == beast::error::bad_chunk_extension) {
    return {400, "invalid chunked encoding"};
  }
  return {400, "the request is not HTTP/1.1"};
}

// Finds the value of a header. Returns false if there are several headers of this name, which makes the request
// ambiguous.
bool find_only(const Headers& headers, std::string_view name, std::string_view& value) {
  bool found = false;
  for (const auto& [key, text] : headers) {
    if (!equals_ignoring_case(key, name)) continue;
    if (found) return false;
    found = true;
    value = trimmed(text, kHeaderBlanks);
  }
  return true;
}

// Returns the first header of this name if it is accepted; else an empty text.
std::string first_accepted(const Headers& headers, std::string_view name, bool (*accepts)(std::string_view text)) {
  const auto found =
      std::ranges::find_if(headers, [&](const auto& one) { return equals_ignoring_case(one.first, name); });
  const std::string_view value = found == headers.end() ? "" : trimmed(found->second, kHeaderBlanks);
  return accepts(value) ? std::string(value) : "";
}

}  // namespace

struct RequestReader::Parser {
  beast::request_parser<GrowingBody> parser;
};

RequestReader::RequestReader(const Limits& limits) : limits_(limits), parser_(std::make_unique<Parser>()) {
  const size_t most = std::numeric_limits<uint32_t>::max();
  parser_->parser.header_limit(static_cast<uint32_t>(std::min(limits.max_header_bytes, most)));
  parser_->parser.body_limit(limits.max_body_bytes);
  parser_->parser.eager(false);
}

RequestReader::~RequestReader() = default;

size_t RequestReader::n_body_bytes() const { return parser_->parser.get().body().size(); }

std::string RequestReader::take_body() { return std::move(parser_->parser.get().body()); }

RequestReader::Progress RequestReader::refuse(int status, std::string_view message) {
  refusal_ = {status, message};
  return Progress::kRefused;
}

RequestReader::Progress RequestReader::read(std::string_view bytes, size_t& n_taken) {
  n_taken = 0;
  auto& parser = parser_->parser;
  if (!has_begun_) {
    // Ignore empty lines before a request (RFC 9112, section 2.2); some clients send them after a body.
    while (bytes.substr(n_taken).starts_with("\r\n")) n_taken += 2;
    if (bytes.substr(n_taken) == "\r") return Progress::kMore;
    const Refusal refusal = check_beginning(bytes.substr(n_taken));
    if (refusal) return refuse(refusal.status, refusal.message);
  }
  if (has_head_ && parser.is_done()) return Progress::kWhole;
  while (n_taken < bytes.size()) {
    BoostError error;
    const std::string_view rest = bytes.substr(n_taken);
    // Wait until there are as many bytes as the last chunk has, because Beast asserts that it gets all bytes of the
    // last chunk at once. The rest of a chunked body never has fewer bytes.
    if (has_head_ && parser.chunked() && rest.size() < kLastChunkBytes) return Progress::kMore;
    const size_t n = parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
    n_taken += n;
    has_begun_ = has_begun_ || n > 0;
    if (!has_head_) {
      // Check the limit for the whole head here, because Beast checks only each line that arrives separately.
      n_head_bytes_ += n;
      if (n_head_bytes_ > limits_.max_header_bytes) return refuse(431, "the request's head is too long");
    }
    if (error == beast::error::need_more) {
      // A line may be longer than the limit for the whole head, for example by a long extension of a chunk.
      const bool too_long = bytes.size() - n_taken > limits_.max_header_bytes;
      return too_long ? refuse(431, "a line of the request is too long") : Progress::kMore;
    }
    if (error) {
      const Refusal refusal = refusal_of(error);
      return refuse(refusal.status, refusal.message);
    }
    if (!has_head_ && parser.is_header_done()) return take_head();
    if (parser.is_done()) return Progress::kWhole;
  }
  return Progress::kMore;
}

RequestReader::Progress RequestReader::take_head() {
  has_head_ = true;
  auto& parser = parser_->parser;
  const auto& message = parser.get();
  head_.method = view_of(message.method_string());
  head_.is_old = message.version() < 11;
  head_.keep_alive = message.keep_alive();
  head_.has_body = !parser.is_done();
  size_t n_fields = 0;
  for (const auto& field : message) {
    if (++n_fields > kMaxFields) return refuse(431, "the request has too many headers");
    head_.headers.emplace_back(view_of(field.name_string()), view_of(field.value()));
  }
  head_.request_id = first_accepted(head_.headers, "x-request-id", is_request_id);
  head_.trace_parent = first_accepted(head_.headers, "traceparent", is_trace_parent);
  std::optional<RequestTarget> target = parse_target(view_of(message.target()));
  if (!target) return refuse(400, "invalid request path: must be percent-encoded UTF-8");
  head_.target = *std::move(target);
  if (const Refusal refusal = check_framing()) return refuse(refusal.status, refusal.message);
  parser.eager(true);
  return Progress::kHead;
}

Refusal RequestReader::check_framing() {
  std::string_view host, length, encoding, content, expect;
  if (!find_only(head_.headers, "host", host)) return {400, "the request has more than one Host header"};
  if (host.empty() && !head_.is_old) return {400, "the request has no Host header"};
  head_.host = head_.target.authority.empty() ? host : head_.target.authority;
  if (!find_only(head_.headers, "content-length", length) || !find_only(head_.headers, "transfer-encoding", encoding)) {
    return {400, "the request has more than one Content-Length or Transfer-Encoding header"};
  }
  if (length.find_first_not_of("0123456789") != std::string_view::npos) {
    return {400, "Content-Length is not a number"};
  }
  if (!encoding.empty()) {
    if (!length.empty()) return {400, "the request has both Content-Length and Transfer-Encoding"};
    if (head_.is_old) return {400, "HTTP/1.0 does not support chunked encoding"};
    if (!equals_ignoring_case(encoding, "chunked")) return {415, "the only supported Transfer-Encoding is chunked"};
  }
  if (!find_only(head_.headers, "content-encoding", content) ||
      (!content.empty() && !equals_ignoring_case(content, "identity"))) {
    return {415, "compressed bodies are not supported"};
  }
  if (!find_only(head_.headers, "expect", expect)) return {417, "the only supported Expect is 100-continue"};
  if (!expect.empty() && !head_.is_old) {
    if (!equals_ignoring_case(expect, "100-continue")) return {417, "the only supported Expect is 100-continue"};
    head_.expects_continue = head_.has_body;
  }
  return {};
}

}  // namespace ibid::http
