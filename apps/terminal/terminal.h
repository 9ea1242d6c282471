// The terminal at a file descriptor: its properties, which are asked for anew each time, because people resize; its
// modes; and writing to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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

// Writes all bytes to a terminal or a file. False: it takes no more. For signal handlers as well.
bool write_all(int fd, std::string_view bytes);

// The modes of the terminal that people type into: as it was found, while a line is edited, and while an answer is
// given. While a TerminalModes lives, whatever ends or stops the process (Ctrl-Z, a hang-up, a crash) first puts the
// terminal back as it was found. A process that goes on after Ctrl-Z gets its modes again.
//
// Pasted text comes in brackets (ESC[200~ ... ESC[201~) in both modes but the first, so that what is pasted
// while an answer is given is one piece as well.
enum class TerminalMode : uint8_t {
  kFound,      // it echoes and edits by itself
  kTyping,     // every key comes at once, Ctrl-C and Ctrl-Z included
  // Keys come at once and unseen; Ctrl-C and Ctrl-Z are signals. Where nobody handles SIGINT, the first one is
  // ignored, because the answer that it was meant for has just ended; the second one ends the process.
  kAnswering,
};

// At most one in the process. set() is for one thread.
class TerminalModes {
 public:
  // keys_fd: the terminal that is typed into; screen_fd: where sequences go.
  TerminalModes(int keys_fd, int screen_fd);
  ~TerminalModes();
  TerminalModes(const TerminalModes&) = delete;
  TerminalModes& operator=(const TerminalModes&) = delete;

  void set(TerminalMode mode);

  // Puts the terminal back as it was found, if a TerminalModes lives. For signal handlers.
  static void restore_in_handler();
  // Whether the process may read from that terminal and set its modes: one in the background would be
  // stopped. For signal handlers as well.
  static bool may_touch(int keys_fd);
  // Stops the process as Ctrl-Z does, with the terminal as it was found; returns when the shell lets it go
  // on.
  void suspend();
};

}  // namespace ibid
