#include "server/http/response_text.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <utility>

namespace ibid::http {

namespace {

constexpr std::array<std::pair<int, std::string_view>, 29> kReasons = {{
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
}};

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  for (const char c : value) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  out += "\r\n";
}

// "Sun, 06 Nov 1994 08:49:37 GMT", RFC 9110, section 5.6.7; in English whatever the locale is.
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

}  // namespace

std::string_view reason_phrase(int status) {
  for (const auto& [code, phrase] : kReasons) {
    if (code == status) return phrase;
  }
  return status < 400 ? "OK" : "Error";
}

std::string response_head(const Response& response, const Framing& framing) {
  std::string out = "HTTP/1.1 " + std::to_string(response.status) + " ";
  out += reason_phrase(response.status);
  out += "\r\n";
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
  char size[24];
  std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
  out += size;
  out += bytes;
  out += "\r\n";
}

}  // namespace ibid::http
