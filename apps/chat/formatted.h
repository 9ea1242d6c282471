// A line of at most 255 bytes as printf writes it.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace ibid {

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 256> line;
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

}  // namespace ibid
