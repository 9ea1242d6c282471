// From the bytes of a terminal to keys: characters, control keys, the sequences of arrows and the like, whole
// pastes.
#pragma once

#include <string>

#include "apps/terminal/terminal_input.h"

namespace ibid {

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
