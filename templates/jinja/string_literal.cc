#include "templates/jinja/string_literal.h"

#include <cstdint>

#include "base/utf8.h"
#include "templates/jinja/failure.h"

namespace ibid::jinja {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

void append_checked(std::string& out, uint32_t code_point, int line) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) {
    fail_syntax(line, "an escape in a string is no character");
  }
  utf8_append(out, code_point);
}

// \xhh, \uhhhh or \Uhhhhhhhh: `digits` hex digits from body[i].
void append_hex(std::string& out, std::string_view body, size_t i, size_t digits, int line) {
  uint32_t value = 0;
  for (size_t k = 0; k < digits; ++k) {
    const int digit = i + k < body.size() ? hex_digit(body[i + k]) : -1;
    if (digit < 0) fail_syntax(line, "a \\x, \\u or \\U escape in a string is cut short");
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  append_checked(out, value, line);
}

// Returns how many of the up to three octal digits belong to the escape.
size_t append_octal(std::string& out, std::string_view body, size_t i, int line) {
  uint32_t value = 0;
  size_t n = 0;
  while (n < 3 && i + n < body.size() && body[i + n] >= '0' && body[i + n] <= '7') {
    value = value * 8 + static_cast<uint32_t>(body[i + n] - '0');
    ++n;
  }
  append_checked(out, value, line);
  return n;
}

}  // namespace

std::string unescape(std::string_view body, int line) {
  std::string out;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out += body[i];
      continue;
    }
    const char c = body[++i];
    switch (c) {
      case '\n': break;  // a line continued
      case '\\':
      case '\'':
      case '"': out += c; break;
      case 'a': out += '\a'; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'v': out += '\v'; break;
      case 'x':
        append_hex(out, body, i + 1, 2, line);
        i += 2;
        break;
      case 'u':
        append_hex(out, body, i + 1, 4, line);
        i += 4;
        break;
      case 'U':
        append_hex(out, body, i + 1, 8, line);
        i += 8;
        break;
      case 'N': fail_syntax(line, "\\N{...} in a string is not supported");
      default:
        if (c >= '0' && c <= '7') {
          i += append_octal(out, body, i, line) - 1;
        } else {
          out += '\\';
          out += c;
        }
    }
  }
  return out;
}

}  // namespace ibid::jinja
