#include "weights/in_quotes.h"

#include "base/utf8.h"

namespace ibid {

namespace {
constexpr size_t kMaxQuoted = 100, kMaxShown = 200;
}  // namespace

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
