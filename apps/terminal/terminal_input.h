// TerminalInput: the typed bytes in order. The line editor reads them. During an answer the thread of InterruptScope
// collects them, because a Ctrl-C would be lost if the system's input queue became full.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace ibid {

// next() must always be called on the same thread; collect() and discard() may run at the same time on another.
class TerminalInput {
 public:
  explicit TerminalInput(int keys_fd);
  ~TerminalInput();
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  // Returns the TerminalInput of this process, or nullptr.
  static TerminalInput* current();

  enum class Event { kByte, kTimeout, kSizeChanged, kContinued, kEnd };
  // Waits for the next byte, at most `patience` if given. kSizeChanged: the terminal was resized; kContinued: the
  // process was stopped and continued, so the screen may have changed; kEnd: the terminal is closed.
  Event next(char& byte, std::optional<std::chrono::milliseconds> patience = std::nullopt);
  // True if next() would return a byte without waiting.
  bool has_byte();

  // Reads typed bytes into the queue with one read(). Returns false at the end of the input.
  bool collect();
  // Discards all typed bytes that were not read, also those in the system's queue.
  void discard();
  int fd() const { return keys_; }

 private:
  int keys_;
  std::mutex mutex_;
  std::string waiting_;  // guarded by mutex_
  size_t taken_ = 0;     // number of bytes of waiting_ that next() has returned; guarded by mutex_
};

// A key, decoded from bytes: a character, control key, escape sequence, or whole paste.
enum class Key {
  kText,   // one or more characters, in KeyPress::text
  kPaste,  // content of a bracketed paste; its only control characters are \n and tab
  kEnter,
  kNewline,  // kNewline: Alt-Enter
  kTab,
  kBackspace,
  kDelete,
  kLeft,
  kRight,
  kUp,
  kDown,
  kHome,
  kEnd,
  kWordLeft,
  kWordRight,
  kDeleteWord,     // deletes the word right of the cursor
  kEraseWord,      // deletes the word of letters and digits left of the cursor
  kEraseArgument,  // deletes the text left of the cursor, up to a blank
  kKillLine,
  kKillToEnd,
  kYank,
  kTranspose,
  kUndo,
  kClearScreen,
  kSearch,
  kOldest,
  kNewest,
  kEditor,
  kInterrupt,
  kDeleteOrEnd,
  kSuspend,
  kCancel,
  kSizeChanged,
  kContinued,
  kClosed,
  kNone,  // unknown key
};

struct KeyPress {
  Key key = Key::kNone;
  std::string text = {};
};

// Reads the next key. Characters that arrive together are returned as one kText.
KeyPress read_key(TerminalInput& input);

// Normalizes pasted text: \r\n and \r become \n, other control characters except tab are removed, invalid UTF-8 becomes
// U+FFFD.
std::string clean_paste(std::string_view text);

}  // namespace ibid
