// Text for terminals. Untrusted text (answers, metadata, template errors) must lose its control characters, which could
// move the cursor, set the title, or make the terminal send input as if typed.
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

namespace ibid {

// Returns `text` without control characters except newline and tab.
std::string without_controls(std::string_view text);

// As without_controls(), on one line: newlines and tabs are written as \n and \t.
std::string one_line(std::string_view text);

// Formats as printf does, at most 255 bytes.
template <typename... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 256> line;
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

}  // namespace ibid
