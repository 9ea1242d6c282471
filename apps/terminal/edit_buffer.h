// EditBuffer: a text and a cursor, with the operations of the editing keys. The cursor is always between grapheme
// clusters, so a letter and its marks, or an emoji family, move as one. Independent of the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

class EditBuffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // byte offset of the cursor

  // Replaces the text and moves the cursor to its end. Can be undone.
  void replace(std::string_view text);
  // Clears text and undo history for a new message.
  void reset();
  // Replaces the text between `begin` and the cursor by `text`. REQUIRES: begin <= cursor().
  void replace_before_cursor(size_t begin, std::string_view text);

  void insert(std::string_view text);
  void erase_left();
  void erase_right();
  void erase_word_left();      // erases a word of letters and digits (Alt-Backspace)
  void erase_argument_left();  // erases a word up to a blank (Ctrl-W)
  void erase_word_right();
  void kill_to_end();  // removes the rest of the current line; at its end, the newline
  void kill_to_begin();
  void yank();       // inserts the last killed text
  void transpose();  // swaps the clusters before and after the cursor
  void undo();

  void left();
  void right();
  void word_left();
  void word_right();
  void to_line_begin();
  void to_line_end();
  // Moves one line up or down in a multi-line text. Returns false if there is no such line.
  bool up();
  bool down();
  void to_end() { cursor_ = text_.size(); }

 private:
  void remember();
  void erase(size_t begin, size_t end);
  void kill(size_t begin, size_t end);
  size_t line_begin() const;
  size_t line_end() const;
  size_t word_begin() const;
  size_t word_end() const;
  void to_column(size_t line_begin, size_t columns);

  static constexpr size_t kNowhere = static_cast<size_t>(-1);
  struct UndoState {
    std::string text;
    size_t cursor;
  };

  std::string text_;
  size_t cursor_ = 0;
  std::string killed_;
  std::vector<UndoState> undo_states_;  // states before each change, oldest first
  size_t typed_to_ = kNowhere;          // text that is typed at this position is undone together with the last change
};

// A text laid out in the rows of a terminal.
struct LaidOutText {
  std::vector<std::string> rows;  // rows as shown: tabs are expanded; no row is wider than the terminal
  size_t cursor_row = 0;
  size_t cursor_column = 0;  // always less than the terminal's width
};

// Lays out a text. The first row begins with `prompt`; rows after a newline are indented by its width. A line that is
// too long continues in column 0 of the next row. cursor: byte offset in `text`. REQUIRES: width >= 4 and wider than
// the prompt.
LaidOutText lay_out(std::string_view prompt, std::string_view text, size_t cursor, size_t width);

}  // namespace ibid
