// One message, written at a terminal: editing by grapheme clusters over any number of lines, pastes as they
// are, the messages before, search among them, completion, the user's own editor. docs/decisions has why it
// is our own.
//
// Keys are those of Emacs and of every shell. Enter sends; it begins a new line behind a backslash, which
// goes away, and within """ ... """, and Alt-Enter always does. A text that needs more rows than the terminal
// has is seen in part.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/terminal/completion.h"
#include "apps/terminal/edit_buffer.h"
#include "apps/terminal/line_history.h"
#include "apps/terminal/terminal.h"
#include "apps/terminal/terminal_input.h"

namespace ibid {

class LineEditor {
 public:
  // All of them outlive it. screen_fd: the terminal that shows what is typed.
  LineEditor(TerminalInput& input, TerminalModes& modes, int screen_fd, LineHistory& history);

  void set_completion(CompletionWords words) { words_ = std::move(words); }

  enum class Outcome { kText, kEnd, kInterrupted };
  // The next message as it was typed; afterwards the cursor stands at the beginning of an empty row. kEnd:
  // Ctrl-D in an empty line, or the terminal is gone. kInterrupted: Ctrl-C; what was typed, and what waits,
  // is forgotten. REQUIRES: the mode is kTyping, and the cursor at the beginning of an empty row.
  Outcome read(std::string& text);

 private:
  enum class Step { kGoOn, kSend, kEnd, kInterrupted };
  Step handle(const KeyPress& press);
  bool edit(const KeyPress& press);  // keys that change the text or move in it; false for any other
  Step enter();
  void recall(bool older);
  void search();
  void complete_word(bool again);
  void edit_outside();
  void suspend();

  void draw();
  void draw_as(std::string_view prompt, std::string_view text, size_t cursor);
  void forget_drawing();        // the cursor is in an empty row
  void end_line();              // below all that is drawn
  void size_changed();
  void write(std::string_view bytes) const;

  TerminalInput& input_;
  TerminalModes& modes_;
  const int screen_;
  LineHistory& history_;
  CompletionWords words_;
  EditBuffer buffer_;
  size_t recalled_ = 0;         // of the history: what the buffer came from; its size: from nowhere
  std::string unsent_;          // what was there before something was recalled
  Key last_key_ = Key::kNone;
  // The rows on the screen, from the first that is visible.
  std::vector<std::string> drawn_;
  size_t drawn_cursor_row_ = 0, drawn_cursor_column_ = 0;
  bool expects_continued_ = false;  // the process stopped itself, and what is to be drawn is known
  size_t top_ = 0;              // the first row that is visible
};

// The message that was typed: without the """ around it, and without newlines at its end.
std::string message_of(std::string_view typed);
// Whether """ was opened and not closed.
bool is_open_block(std::string_view typed);

}  // namespace ibid
