#include "server/http/response_writer.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/status.hpp>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/text.h"

namespace ibid::http {

namespace {

namespace beast = boost::beast::http;

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  for (const char c : value) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  out += "\r\n";
}

// Returns the time as "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, section 5.6.7), in English in any locale.
std::string date_now() {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  std::snprintf(text, sizeof(text), "%s, %02d %s %d %02d:%02d:%02d GMT", kDays[parts.tm_wday], parts.tm_mday,
                kMonths[parts.tm_mon], 1900 + parts.tm_year, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text;
}

std::string_view reason_phrase(int status) {
  const beast::status known = beast::int_to_status(static_cast<unsigned>(status));
  if (known == beast::status::unknown) return status < 400 ? "OK" : "Error";
  const boost::beast::string_view phrase = beast::obsolete_reason(known);
  return {phrase.data(), phrase.size()};
}

// Adds the header unless the handler has set it.
void add_default(Headers& headers, std::string_view name, std::string_view value) {
  const auto is_it = [&](const auto& header) { return equals_ignoring_case(header.first, name); };
  if (std::none_of(headers.begin(), headers.end(), is_it)) headers.emplace_back(name, value);
}

}  // namespace

std::string response_head(const Response& response, const Framing& framing) {
  std::string out = "HTTP/1.1 " + std::to_string(response.status) + " ";
  out.append(reason_phrase(response.status)).append("\r\n");
  append_field(out, "Date", date_now());
  if (framing.body != Framing::Body::kNone) append_field(out, "Content-Type", response.content_type);
  if (framing.body == Framing::Body::kLength) append_field(out, "Content-Length", std::to_string(framing.length));
  if (framing.body == Framing::Body::kChunks) append_field(out, "Transfer-Encoding", "chunked");
  if (!framing.keep_alive) {
    append_field(out, "Connection", "close");
  } else if (framing.is_old) {
    append_field(out, "Connection", "keep-alive");
  }
  append_field(out, "X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : response.headers) append_field(out, name, value);
  return out + "\r\n";
}

void append_chunk(std::string& out, std::string_view bytes) {
  out += boost::beast::buffers_to_string(beast::make_chunk(boost::asio::buffer(bytes.data(), bytes.size())));
}

bool ResponseWriter::add(Reply::Portion portion, std::string& out) {
  if (portion.is_cut) return false;
  if (portion.head) add_head(*std::move(portion.head), portion.is_stream, out);
  if (!portion.bytes.empty() && !is_whole_) add_to_stream(portion.bytes, out);
  if (portion.is_last && !is_whole_) {
    if (in_chunks_) out += kLastChunk;
    is_whole_ = true;
  }
  return true;
}

void ResponseWriter::add_to_stream(std::string_view bytes, std::string& out) const {
  if (in_chunks_) {
    append_chunk(out, bytes);
  } else {
    out += bytes;
  }
}

void ResponseWriter::add_head(Response response, bool is_stream, std::string& out) {
  has_head_ = true;
  in_chunks_ = is_stream && !options_.is_old;
  if (is_stream && options_.is_old) options_.keep_alive = false;
  Framing framing{.length = response.body.size(), .is_old = options_.is_old, .keep_alive = options_.keep_alive};
  if (is_stream) {
    framing.body = options_.is_old ? Framing::Body::kUntilTheEnd : Framing::Body::kChunks;
    add_default(response.headers, "Cache-Control", "no-store");
    add_default(response.headers, "X-Accel-Buffering", "no");  // tells proxies to forward bytes without buffering
  } else if (response.status != 204 && response.status != 304) {
    framing.body = Framing::Body::kLength;
  }
  for (auto& header : options_.headers) response.headers.push_back(std::move(header));
  out += response_head(response, framing);
  is_whole_ = options_.head_only;
  if (!options_.head_only && !is_stream) out += response.body;
}

}  // namespace ibid::http
