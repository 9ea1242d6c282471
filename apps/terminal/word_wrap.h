// Wraps text at blanks to the terminal's width: streamed text (WordWrap) and whole texts (wrapped()).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ibid {

// WordWrap writes each piece at once. If a word turns out not to fit, it is erased with the blank before it, and
// written in the next row. Words longer than a row and lines of code blocks (``` or indented) are left to the terminal
// to wrap, so that they can be copied whole. Chinese and Japanese text wraps between characters. Continuation rows of a
// list item, and of text indented below one, are indented to the item's text.
class WordWrap {
 public:
  // may_erase: the terminal supports escape sequences. If it does not, a word is written only when it is complete.
  explicit WordWrap(bool may_erase) : may_erase_(may_erase) {}

  // Returns the output for the next piece of text: whole characters, no control characters but newline and tab. width:
  // the current width of the terminal.
  std::string push(std::string_view text, size_t width);
  // Returns the rest of the output at the end of the text. Blanks at the end are dropped.
  std::string finish();

  // True if the cursor is at the start of an empty row.
  bool at_line_start() const { return column_ == 0 && word_.empty() && blanks_.empty() && !in_code_line_; }

 private:
  enum class Line { kUnknown, kProse, kCode };

  void put(std::string_view character, std::string& out);
  void put_in_code(std::string_view character, std::string& out);
  void put_newline(std::string& out);
  void put_in_word(std::string_view character, std::string& out);
  void begin_word(std::string_view character, std::string& out);
  void write_word(std::string& out);
  void end_word(std::string& out);
  void move_word(std::string& out);
  void look_at_line(std::string_view character);
  size_t begin_row(std::string& out);
  size_t hang() const;

  bool word_fits(size_t begin) const;

  const bool may_erase_;
  size_t width_ = 0;
  bool in_fence_ = false;
  bool in_code_line_ = false;  // a part of a code line was written
  size_t code_column_ = 0;     // column in the code line, as if rows had no end
  Line line_ = Line::kUnknown;
  std::string line_begin_;    // first bytes of the line, to detect code fences and list items
  std::string blanks_;        // blanks before the next word, not written yet
  std::string word_;          // current word; if it is longer than a row, the part in its last row
  size_t column_ = 0;         // column after the written text and the word
  size_t word_column_ = 0;    // column where the word starts
  size_t before_word_ = 0;    // column where the blanks before the word start
  size_t extra_ = 0;          // additional columns before the word on terminals that do not join emoji
  bool is_disputed_ = false;  // terminals may have the word in different columns
  // A row whose width terminals dispute may have been wrapped by the terminal, so the next word begins a new row.
  bool must_begin_row_ = false;
  size_t held_gap_ = 0;      // columns of the blanks before the word that are not written yet
  bool is_written_ = false;  // the part of the word received so far was written
  bool can_move_ = false;    // the word may be moved to the next row
};

// Returns `text` with each line wrapped at blanks to `width`. If a line is a row of a table ("/name  what it does"),
// its continuation rows are indented to the second column. Words longer than a row stay whole.
std::string wrapped(std::string_view text, size_t width);

}  // namespace ibid
