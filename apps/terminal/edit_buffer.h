// A text that is being written, and a cursor in it: what keys do to them. The cursor stands between grapheme
// clusters, so that a letter goes with its marks and a family of emoji as one. Knows nothing of terminals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

class EditBuffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // in bytes

  // Another text, with the cursor at its end. Can be undone.
  void replace(std::string_view text);
  // The same without a way back: a new line begins.
  void reset();
  // Puts `text` in place of [begin, cursor). REQUIRES: begin <= cursor().
  void replace_behind(size_t begin, std::string_view text);

  void insert(std::string_view text);
  void erase_left();
  void erase_right();
  void erase_word_left();      // letters and digits, as Alt-Backspace
  void erase_argument_left();  // up to a blank, as Ctrl-W
  void erase_word_right();
  void kill_to_end();          // of the line in which the cursor is; at its end the newline
  void kill_to_begin();
  void yank();                 // what the last of these three took
  void transpose();            // the cluster in front of the cursor with the one behind it
  void undo();

  void left();
  void right();
  void word_left();
  void word_right();
  void to_line_begin();
  void to_line_end();
  // A line up or down in a text of several; false: there is no such line.
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
  struct Moment {
    std::string text;
    size_t cursor;
  };

  std::string text_;
  size_t cursor_ = 0;
  std::string killed_;
  std::vector<Moment> moments_;  // before each change
  size_t typed_to_ = kNowhere;   // characters that go on there belong to the last change
};

// The places of a text's characters, and of the cursor, in the rows of a terminal.
struct LaidOutText {
  std::vector<std::string> rows;  // as they are written: tabs as blanks; none wider than the terminal
  size_t cursor_row = 0;
  size_t cursor_column = 0;  // < the terminal's width
};

// The first row begins with `prompt`, the row behind each newline with as many blanks; what is too long goes
// on in column 0 of the next. cursor: in bytes of `text`. REQUIRES: width >= 4 and wider than the prompt.
LaidOutText lay_out(std::string_view prompt, std::string_view text, size_t cursor, size_t width);

}  // namespace ibid
