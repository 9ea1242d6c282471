// Texts for a terminal. Those of strangers (answers, metadata, templates' own errors) lose their control characters,
// which a terminal would obey: move the cursor, set the title, answer questions as if the user typed.
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

namespace ibid {

// `text` without control characters but newline and tab.
std::string without_controls(std::string_view text);

// The same in one line: newlines and tabs as \n and \t.
std::string one_line(std::string_view text);

// A line of at most 255 bytes as printf writes it.
template <typename... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 256> line;
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

}  // namespace ibid
