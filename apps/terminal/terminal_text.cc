#include "apps/terminal/terminal_text.h"

namespace ibid {

std::string without_controls(std::string_view text) {
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    // In UTF-8, the C1 control characters U+0080..U+009F are C2 80..C2 9F.
    const bool c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    if (c1 || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) continue;
    clean += static_cast<char>(c);
  }
  return clean;
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : without_controls(text)) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace ibid
