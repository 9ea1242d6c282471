// LineEditor: edits one message at a terminal, by grapheme clusters and over any number of lines, with pastes, history,
// search, completion and an external editor. docs/decisions/0019-a-line-editor-of-our-own.md gives the reasons for not
// using a library.
//
// Keys are those of Emacs and shells. Enter sends the message. After a backslash, which it removes, and inside """ ...
// """ it inserts a newline instead; Alt-Enter always inserts one. If a text has more rows than the terminal, a part of
// it is shown.
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
  // All references must outlive the editor. screen_fd: the terminal on which the text is shown.
  LineEditor(TerminalInput& input, TerminalModes& modes, int screen_fd, LineHistory& history);

  void set_completion(CompletionWords words) { words_ = std::move(words); }

  enum class Outcome { kText, kEnd, kInterrupted };
  // Reads the next message as typed; afterwards the cursor is at the start of an empty row. kEnd: Ctrl-D was pressed in
  // an empty line, or the terminal is closed. kInterrupted: Ctrl-C was pressed, and all typed text is discarded.
  // REQUIRES: mode kTyping, and the cursor at the start of an empty row.
  Outcome read(std::string& text);

 private:
  enum class Step { kGoOn, kSend, kEnd, kInterrupted };
  Step handle(const KeyPress& press);
  bool edit(const KeyPress& press);  // handles keys that edit or move; returns false for any other key
  Step enter();
  void recall(bool older);
  void search();
  void complete_word(bool again);
  void edit_outside();
  void suspend();

  void draw();
  void draw_as(std::string_view prompt, std::string_view text, size_t cursor);
  void forget_drawing();  // call if the cursor is in an empty row and nothing is drawn
  void end_line();        // moves to a new row below the drawing
  void size_changed();
  void write(std::string_view bytes) const;

  TerminalInput& input_;
  TerminalModes& modes_;
  const int screen_;
  LineHistory& history_;
  CompletionWords words_;
  EditBuffer buffer_;
  size_t recalled_ = 0;  // index of the history entry that is shown; entries().size(): a new text is shown instead
  std::string unsent_;   // the text before the first history entry was recalled
  Key last_key_ = Key::kNone;
  std::vector<std::string> drawn_;
  size_t drawn_cursor_row_ = 0, drawn_cursor_column_ = 0;
  bool expects_continued_ = false;  // suspend() was called: the next kContinued must not forget the drawing
  size_t top_ = 0;                  // index of the first visible row
};

// Returns the typed message without the """ around it and without trailing newlines.
std::string message_of(std::string_view typed);
// True if """ was opened and not closed yet.
bool is_open_block(std::string_view typed);

}  // namespace ibid
