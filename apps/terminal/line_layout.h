// Where the characters of a text stand in the rows of a terminal, and the cursor among them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

struct LaidOutText {
  std::vector<std::string> rows;  // as they are written: tabs as blanks; none wider than the terminal
  size_t cursor_row = 0;
  size_t cursor_column = 0;  // < the terminal's width
};

// The first row begins with `prompt`, the row behind each newline with as many blanks; what is too long goes
// on in column 0 of the next. cursor: in bytes of `text`. REQUIRES: width >= 4 and wider than the prompt.
LaidOutText lay_out(std::string_view prompt, std::string_view text, size_t cursor, size_t width);

}  // namespace ibid
