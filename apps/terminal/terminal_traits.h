// The properties of the terminal at a file descriptor. They are asked for anew each time, because people resize.
#pragma once

#include <cstddef>

namespace ibid {

inline constexpr size_t kUsualWidth = 80;
// Text is laid out for at least so many columns, however narrow the terminal says that it is.
inline constexpr size_t kLeastWidth = 8;

// Columns and rows; 80 and 24 where there is no terminal, or it does not know.
size_t terminal_width(int fd);
size_t terminal_height(int fd);

// Whether it is a terminal that understands sequences: TERM is neither dumb nor missing.
bool obeys_sequences(int fd);
// The same, and the user has not said no to colours (NO_COLOR, not empty: no-color.org).
bool shows_colours(int fd);

}  // namespace ibid
