#include "base/text.h"

#include <charconv>
#include <ctime>
#include <random>

#include "base/utf8.h"

namespace ibid {

namespace {
constexpr size_t kMaxQuoted = 100, kMaxShown = 200;
}  // namespace

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = lower_ascii(c);
  return lower;
}

void append_hex(std::string& out, uint64_t value, size_t n_digits) {
  for (size_t i = n_digits; i-- > 0;) out += "0123456789abcdef"[value >> (4 * i) & 15u];
}

std::string padded_number(uint64_t value, size_t n_digits) {
  std::string digits = std::to_string(value);
  if (digits.size() < n_digits) digits.insert(0, n_digits - digits.size(), '0');
  return digits;
}

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string counted(uint64_t n, std::string_view what) {
  return std::to_string(n).append(" ").append(what).append(n == 1 ? "" : "s");
}

std::string iso_time(int64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts)};
}

std::string random_digits() {
  thread_local std::random_device device;
  std::string digits;
  for (size_t i = 0; i < 4; ++i) append_hex(digits, device(), 8);
  return digits;
}

void append_part(std::string& list, std::string_view part, std::string_view separator) {
  if (!list.empty()) list += separator;
  list += part;
}

std::string in_quotes(std::string_view text) {
  std::string shown = utf8_sanitize(text.substr(0, kMaxQuoted));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return "'" + shown + (text.size() > kMaxQuoted ? "'..." : "'");
}

std::string shown_value(std::string_view text) {
  return utf8_sanitize(text.substr(0, kMaxShown)) + (text.size() > kMaxShown ? "..." : "");
}

}  // namespace ibid
