// The bytes that are typed at the terminal, in their order: first those that came while an answer was given, then
// what comes now. The line editor takes them. While an answer is given, the thread of InterruptScope collects them,
// so that they are not lost and do not fill the system's queue, which would hide a Ctrl-C behind them.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace ibid {

// next() is for one thread; collect() and discard() may be called on another meanwhile.
class TerminalInput {
 public:
  explicit TerminalInput(int keys_fd);
  ~TerminalInput();
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  // The one of this process, or nullptr.
  static TerminalInput* current();

  enum class Event { kByte, kTimeout, kSizeChanged, kContinued, kEnd };
  // Waits for the next byte, no longer than `patience` if that is given. kSizeChanged: the terminal has
  // another size; kContinued: the process was stopped and goes on, and the screen is another's; kEnd: nobody
  // will type any more.
  Event next(char& byte, std::optional<std::chrono::milliseconds> patience = std::nullopt);
  // Whether next() would return a byte without waiting.
  bool has_byte();

  // Takes what was typed from the system; at most one read. False when there is no more to come.
  bool collect();
  // Forgets what was typed and not yet taken, the system's queue included.
  void discard();
  int fd() const { return keys_; }

 private:
  int keys_;
  std::mutex mutex_;
  std::string waiting_;  // guarded
  size_t taken_ = 0;     // of waiting_; guarded
};

// The bytes as keys: characters, control keys, the sequences of arrows and the like, whole pastes.
enum class Key {
  kText,  // characters, in KeyPress::text
  kPaste, // text between the brackets of a paste: newlines are \n, no control characters but newline and tab
  kEnter, kNewline,  // kNewline: Alt-Enter
  kTab, kBackspace, kDelete, kLeft, kRight, kUp, kDown, kHome, kEnd, kWordLeft, kWordRight,
  kDeleteWord,      // to the right
  kEraseWord,       // to the left, a word of letters and digits
  kEraseArgument,   // to the left, up to a blank
  kKillLine, kKillToEnd, kYank, kTranspose, kUndo, kClearScreen, kSearch, kOldest, kNewest,
  kEditor, kInterrupt, kDeleteOrEnd, kSuspend, kCancel,
  kSizeChanged, kContinued, kClosed,
  kNone,  // nothing that is known
};

struct KeyPress {
  Key key = Key::kNone;
  std::string text = {};
};

// The next key. Text that comes at once is one kText.
KeyPress read_key(TerminalInput& input);

// `text` as a paste is kept: \r\n and \r are \n, other control characters but tab are gone, what is no UTF-8
// is U+FFFD.
std::string clean_paste(std::string_view text);

}  // namespace ibid
