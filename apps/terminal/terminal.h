// The terminal at a file descriptor: its properties (read at each call, because the window may be resized), and its
// modes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ibid {

inline constexpr size_t kUsualWidth = 80;
// Text is laid out for at least this width, even on a narrower terminal.
inline constexpr size_t kLeastWidth = 8;

// Return columns and rows; 80 and 24 if `fd` is not a terminal or has no known size.
size_t terminal_width(int fd);
size_t terminal_height(int fd);

// True for a terminal that supports escape sequences: TERM is set and not "dumb".
bool supports_escapes(int fd);
// True if supports_escapes() and colours are not disabled (NO_COLOR not empty, no-color.org).
bool shows_colours(int fd);

// Modes of the terminal in which the user types. A TerminalModes restores the original mode when a signal ends or stops
// the process (Ctrl-Z, hang-up, crash), and applies the current mode again after Ctrl-Z. All modes but kOriginal enable
// bracketed paste (ESC[200~ ... ESC[201~), so that text pasted during an answer is one piece as well.
enum class TerminalMode : uint8_t {
  kOriginal,  // the original mode, in which the terminal echoes and edits
  kTyping,    // keys arrive at once, Ctrl-C and Ctrl-Z included
  // Keys arrive at once and are not echoed; Ctrl-C and Ctrl-Z are signals. Without an InterruptScope the first SIGINT
  // is ignored, because it was probably meant for an answer that has just ended; the second ends the process.
  kAnswering,
};

// At most one exists in the process. set() must always be called on the same thread.
class TerminalModes {
 public:
  // keys_fd: the terminal that is read; screen_fd: the terminal to which escape sequences are written.
  TerminalModes(int keys_fd, int screen_fd);
  ~TerminalModes();
  TerminalModes(const TerminalModes&) = delete;
  TerminalModes& operator=(const TerminalModes&) = delete;

  void set(TerminalMode mode);

  // Restores the original mode if a TerminalModes exists. Async-signal-safe.
  static void restore_in_handler();
  // True if the process may read the terminal and set its modes. The system would stop a background process that does
  // so. Async-signal-safe.
  static bool may_touch(int keys_fd);
  // Restores the original mode and stops the process, as Ctrl-Z does. Returns when the process is continued.
  void suspend();
};

}  // namespace ibid
