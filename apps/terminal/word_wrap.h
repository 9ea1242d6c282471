// Wraps text at blanks to the terminal's width: streamed text (WordWrap) and whole texts (wrapped()).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ibid {

// WordWrap shows each piece at once. A word that turns out not to fit is erased, with the blank before it, and written
// in the next row. The terminal itself wraps words longer than a row and lines of code blocks (``` or indented), so
// that they can be copied whole. Chinese and Japanese text wraps between characters. Continuation rows of a list item,
// and of text indented below one, are indented to the item's text.
class WordWrap {
 public:
  // may_erase: the terminal supports escape sequences; else a word is written only when it is complete.
  explicit WordWrap(bool may_erase) : may_erase_(may_erase) {}

  // Returns the output for the next piece: whole characters, no control characters but newline and tab. width: current
  // width of the terminal.
  std::string push(std::string_view text, size_t width);
  // Returns the rest of the output at the end of the text. Drops trailing blanks.
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
  bool in_code_line_ = false;  // some of a code line was written
  size_t code_column_ = 0;     // column in the code line if rows had no end
  Line line_ = Line::kUnknown;
  std::string line_begin_;    // first bytes of the line, to detect code fences and list items
  std::string blanks_;        // blanks not yet written, before the next word
  std::string word_;          // current word; of a word longer than a row, the part in its last row
  size_t column_ = 0;         // after the written text and the word
  size_t word_column_ = 0;    // start of the word
  size_t before_word_ = 0;    // start of the blanks before the word
  size_t extra_ = 0;          // columns that terminals without emoji joining use in addition, before the word
  bool is_disputed_ = false;  // terminals differ on the column of the word
  bool is_lost_ = false;      // the terminal wrapped a disputed row somewhere: begin a new row with the next word
  size_t held_gap_ = 0;       // columns of unwritten blanks before the word
  bool is_written_ = false;   // the received part of the word was written
  bool can_move_ = false;     // the word may be moved to the next row
};

// Returns `text` with each line wrapped at blanks to `width`. Continuation rows of a table line ("/name  what it does")
// are indented to its second column. Words longer than a row stay whole.
std::string wrapped(std::string_view text, size_t width);

}  // namespace ibid
