#include "apps/sessions/session_name.h"

#include "base/utf8.h"

namespace ibid {
namespace {

// With ".1000.ibid.tmp" behind it, it has to fit into the 255 bytes that file systems allow.
constexpr size_t kMaxEscapedBytes = 230;

bool stands_for_itself(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// Characters that a terminal obeys or does not show: two names that look the same would be two conversations.
bool is_invisible(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202F) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF0 && c <= 0xFFFF) ||
         (c >= 0xE0000 && c <= 0xE0FFF);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

Status check_session_name(std::string_view name) {
  const Status refused(ErrorCode::kInvalidArgument,
                       "a conversation's name has 1 to 64 characters: letters, digits, blanks and signs, but no / and "
                       "no \\, and no blank or . at its beginning or blank at its end");
  if (name.empty() || !utf8_is_valid(name) || name.front() == ' ' || name.back() == ' ' || name.front() == '.') {
    return refused;
  }
  size_t n_characters = 0;
  for (size_t i = 0; i < name.size(); ++n_characters) {
    const DecodedChar c = utf8_decode(name, i);
    if (c.code_point == '/' || c.code_point == '\\' || is_invisible(c.code_point)) return refused;
    i += c.length;
  }
  if (n_characters > kMaxNameCharacters) return refused;
  if (escape_session_name(name).size() > kMaxEscapedBytes) {
    return {ErrorCode::kInvalidArgument, "this name is too long for a file; take a shorter one"};
  }
  return {};
}

std::string escape_session_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : name) {
    if (stands_for_itself(c)) {
      escaped += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      escaped += '%';
      escaped += kDigits[byte >> 4];
      escaped += kDigits[byte & 15];
    }
  }
  return escaped;
}

std::optional<std::string> unescape_session_name(std::string_view escaped) {
  std::string name;
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (stands_for_itself(escaped[i])) {
      name += escaped[i];
      continue;
    }
    if (escaped[i] != '%' || i + 2 >= escaped.size()) return std::nullopt;
    const int high = hex_digit(escaped[i + 1]);
    const int low = hex_digit(escaped[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    name += static_cast<char>(high * 16 + low);
    i += 2;
  }
  // One name has one file: "%41" is not how "A" is written.
  if (!check_session_name(name).ok() || escape_session_name(name) != escaped) return std::nullopt;
  return name;
}

}  // namespace ibid
