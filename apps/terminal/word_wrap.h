// Breaks text at blanks into lines that fit a terminal: text that is still coming (WordWrap), and remarks
// (wrapped).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ibid {

// Text comes in pieces and is shown at once. A word that turns out not to fit is taken back and written again
// in the next row; with it goes the blank in front of it, so that no row ends in blanks. A word longer than a
// row, a line in a block of code (``` or indented) and nothing else is left to the terminal to break, which
// lets people copy it whole. Chinese and Japanese break between characters. The rows of a list's item, and of what is
// indented below one, begin where its text does.
class WordWrap {
 public:
  // may_erase: the terminal obeys sequences; else a word waits until it is whole.
  explicit WordWrap(bool may_erase) : may_erase_(may_erase) {}

  // Returns what to write for the next piece: whole characters, no control characters but newline and tab. width:
  // of the terminal now.
  std::string push(std::string_view text, size_t width);
  // Returns what is still to be written when no more comes. Blanks at the end are dropped.
  std::string finish();

  // Whether the cursor stands at the beginning of a row that nothing was written to.
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
  bool in_code_line_ = false;    // and something of the line was written
  size_t code_column_ = 0;       // of a line of code, had the terminal no edge
  Line line_ = Line::kUnknown;
  std::string line_begin_;       // the first bytes of the line, to know a fence or a list's item by
  std::string blanks_;           // not written: they go where the next word goes
  std::string word_;             // the word at the end; of one longer than a row the part in its last row
  size_t column_ = 0;            // behind what was written, the word included
  size_t word_column_ = 0;       // where the word begins
  size_t before_word_ = 0;       // where the blanks in front of it begin
  size_t extra_ = 0;             // what a terminal that joins no emoji may need of the row in front of the word
  bool is_disputed_ = false;     // terminals differ on where the word begins
  bool is_lost_ = false;         // the terminal broke such a row, nobody knows where: the next word begins a new one
  size_t held_gap_ = 0;          // columns of blanks in front of the word that were not written
  bool is_written_ = false;      // the word, as far as it came
  bool can_move_ = false;        // the word may go to the next row
};

// `text` with each of its lines broken at blanks to fit `width`. In a line of a table ("/name  what it does")
// the rest stands below the second column. A word that is too long stays whole.
std::string wrapped(std::string_view text, size_t width);

}  // namespace ibid
