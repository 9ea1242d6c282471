// Models the screen of a terminal after the bytes that a program wrote to it: a grid of characters, a cursor, and
// the rows that scrolled out at the top. Supports the text handling of current terminals (wrapping delayed until
// the next character, wide characters, combining characters, joined emoji) and the sequences that ibid
// writes; other sequences are collected in unknown(), so that a test can check for them. Ignores colours.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

class ScreenModel {
 public:
  // joins_emoji: show a sequence of emoji as one, as newer terminals do; older ones show its parts separately.
  ScreenModel(size_t rows, size_t columns, bool joins_emoji = true);

  // Feeds bytes that the program wrote; a sequence or a character may be split anywhere.
  void feed(std::string_view bytes);
  // Cuts or adds rows at the bottom and columns at the right, without rewrapping, as xterm does.
  void resize(size_t rows, size_t columns);

  size_t rows() const { return grid_.size(); }
  size_t columns() const { return n_columns_; }
  size_t cursor_row() const { return row_; }
  size_t cursor_column() const { return column_; }

  // Returns one row without trailing cells that were never written; written blanks count.
  std::string row(size_t i) const;
  // Returns all rows, without empty rows at the end, joined by newlines.
  std::string text() const;
  // Returns the rows that scrolled out, then text().
  std::string everything() const;

  bool bracketed_paste() const { return bracketed_paste_; }
  // Number of escape sequences so far; SGR sequences (colours) are counted separately.
  size_t n_colours() const { return n_colours_; }
  size_t n_sequences() const { return n_sequences_; }
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  struct Cell {
    std::string text;          // empty: never written, or erased
    bool second_half = false;  // the cell is the second half of the wide character to its left
  };
  using Row = std::vector<Cell>;

  void put(char32_t c);
  bool joins_previous(char32_t c) const;
  void line_feed();
  void control(unsigned char c);
  void sequence(const std::string& whole);
  void erase(Row& row, size_t begin, size_t end);
  static std::string row_text(const Row& row);
  Cell* last_cell();

  size_t n_columns_;
  bool joins_emoji_;
  std::vector<Row> grid_;
  std::vector<std::string> scrolled_;
  size_t row_ = 0, column_ = 0;
  bool wrap_waits_ = false;
  bool bracketed_paste_ = false;
  size_t n_colours_ = 0, n_sequences_ = 0;
  std::string pending_;  // an incomplete sequence or character
  char32_t before_ = 0;  // the last character, with which combining characters combine
  std::vector<std::string> unknown_;
};

// Width of a code point in terminal columns: 0, 1 or 2.
size_t terminal_columns(char32_t c);

}  // namespace ibid
