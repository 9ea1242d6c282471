#include "apps/terminal/word_wrap.h"

#include <algorithm>
#include <utility>

#include "apps/terminal/graphemes.h"
#include "apps/terminal/terminal.h"
#include "base/utf8.h"

namespace ibid {
namespace {

constexpr size_t kCodeIndent = 4;  // minimum indentation of code in blanks, as in Markdown
constexpr size_t kLineBegin = 32;  // maximum bytes of a line that are inspected

bool is_blank(std::string_view character) { return character == " " || character == "\t"; }

size_t blank_columns(std::string_view blanks, size_t column) {
  const size_t begin = column;
  for (const char c : blanks) column += c == '\t' ? kTabColumns - column % kTabColumns : 1;
  return column - begin;
}

size_t leading_columns(std::string_view line) {
  return blank_columns(line.substr(0, std::min(line.find_first_not_of(" \t"), line.size())), 0);
}

bool is_fence(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return line.starts_with("```") || line.starts_with("~~~");
}

// Returns the column of the line's text, after the indentation and the marker of a list item.
size_t text_begin(std::string_view line) {
  const size_t sign = std::min(line.find_first_not_of(" \t"), line.size());
  size_t end = sign;
  while (end < line.size() && end < sign + 3 && line[end] >= '0' && line[end] <= '9') ++end;
  if (end < line.size() &&
      (end > sign ? line[end] == '.' || line[end] == ')' : line[end] == '-' || line[end] == '*' || line[end] == '+')) {
    ++end;
  } else if (line.substr(sign).starts_with("•")) {
    end = sign + std::string_view("•").size();
  } else {
    end = sign;
  }
  const size_t text = std::min(line.find_first_not_of(" \t", end), line.size());
  const bool is_item = end > sign && text > end;
  const size_t indent = leading_columns(line);
  if (!is_item) return indent;
  const size_t after_sign = indent + text_columns(line.substr(sign, end - sign));
  return after_sign + blank_columns(line.substr(end, text - end), after_sign);
}

// True if a line may break between `word` and `next` without a blank.
bool breaks_between(std::string_view word, std::string_view next) {
  if (word.empty() || closes_a_phrase(next, 0)) return false;
  size_t last = word.size() - 1;
  while (last > 0 && (static_cast<unsigned char>(word[last]) & 0xC0u) == 0x80u) --last;
  return breaks_without_blank(next, 0) || breaks_without_blank(word, last);
}

}  // namespace

std::string WordWrap::push(std::string_view text, size_t width) {
  width = std::max(width, kLeastWidth);
  if (width_ != width && column_ > 0) {
    // After a resize each terminal arranges the row in its own way. Assume that the row still fits the new width.
    can_move_ = false;
    column_ = std::min(column_, width);
  }
  width_ = width;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_decode(text, i).length;
    put(text.substr(i, length), out);
    i += length;
  }
  return out;
}

std::string WordWrap::finish() {
  std::string out;
  end_word(out);
  blanks_.clear();
  return out;
}

// Classifies the line at its first non-blank character. An indented list item is not code.
void WordWrap::look_at_line(std::string_view character) {
  if (line_begin_.size() < kLineBegin) line_begin_ += character;
  if (line_ != Line::kUnknown || is_blank(character)) return;
  const bool item = character.find_first_of("-*+0123456789") == 0;
  const bool indented = leading_columns(line_begin_) >= kCodeIndent && !item;
  line_ = in_fence_ || indented ? Line::kCode : Line::kProse;
}

void WordWrap::put(std::string_view character, std::string& out) {
  if (character == "\n") return put_newline(out);
  look_at_line(character);
  if (line_ == Line::kCode) {
    for (const char blank : std::exchange(blanks_, {})) put_in_code(std::string_view(&blank, 1), out);
    put_in_code(character, out);
  } else if (is_blank(character)) {
    end_word(out);
    blanks_ += character;
  } else if (word_.empty()) {
    begin_word(character, out);
  } else {
    put_in_word(character, out);
  }
}

// Writes only indenting tabs as tabs, and others as blanks: a tab near the right edge does not advance, and the next
// character would overwrite the cell.
void WordWrap::put_in_code(std::string_view character, std::string& out) {
  const bool indents = leading_columns(line_begin_) >= code_column_ && code_column_ + kTabColumns < width_;
  const size_t columns = blank_columns(character, code_column_);
  const bool tab = character == "\t";
  if (tab && !indents) {
    out.append(columns, ' ');
  } else {
    out += character;
  }
  code_column_ += tab ? columns : text_columns(character);
  in_code_line_ = true;
}

void WordWrap::put_newline(std::string& out) {
  end_word(out);
  if (is_fence(line_begin_)) in_fence_ = !in_fence_;
  blanks_.clear();
  line_begin_.clear();
  line_ = Line::kUnknown;
  in_code_line_ = false;
  column_ = extra_ = code_column_ = 0;
  is_disputed_ = must_begin_row_ = false;
  out += '\n';
}

// True if the word fits on any terminal when placed at column `begin`. If terminals differ on the width of the row's
// text, the row must not become full, because terminals also differ in where the cursor is after a full row.
bool WordWrap::word_fits(size_t begin) const {
  const size_t widest = begin + extra_ + widest_text_columns(word_);
  return widest < width_ || (widest == width_ && !is_disputed_);
}

// Returns the indentation of continuation rows; 0 if the indentation exceeds half the width.
size_t WordWrap::hang() const {
  const size_t columns = text_begin(line_begin_);
  return columns * 2 > width_ ? 0 : columns;
}

// Begins a continuation row and returns its first column.
size_t WordWrap::begin_row(std::string& out) {
  const size_t columns = hang();
  out += '\n';
  out.append(columns, ' ');
  return columns;
}

void WordWrap::begin_word(std::string_view character, std::string& out) {
  const size_t gap = blank_columns(blanks_, column_);
  const bool first = column_ == 0;  // first word of its row, so the blanks before it are the line's indentation
  word_ = character;
  if (!first && (must_begin_row_ || !word_fits(column_ + gap))) {
    column_ = before_word_ = word_column_ = begin_row(out);
    extra_ = 0;
    is_disputed_ = must_begin_row_ = false;
    held_gap_ = 0;
    can_move_ = false;
  } else {
    before_word_ = column_;
    word_column_ = column_ + gap;
    can_move_ = !first;
    held_gap_ = gap;
  }
  blanks_.clear();
  column_ = word_column_ + text_columns(word_);
  if (may_erase_) write_word(out);
}

void WordWrap::put_in_word(std::string_view character, std::string& out) {
  if (breaks_between(word_, character) && text_columns(character) > 0) {
    end_word(out);
    return begin_word(character, out);
  }
  word_ += character;
  const size_t columns = text_columns(word_);
  const bool fits = word_fits(word_column_);
  // If terminals differ on the width of a word that was written, the word cannot be erased, because the column of its
  // start is unknown.
  const bool sure = !is_written_ || terminals_agree(word_);
  if (!fits && can_move_ && sure && hang() + columns <= width_) return move_word(out);
  if (is_written_) out += character;
  if (fits || text_columns(character) == 0) {
    column_ = std::min(word_column_ + columns, width_);
    return;
  }
  // The terminal itself continues the word in the next row.
  if (!is_written_) write_word(out);
  must_begin_row_ = must_begin_row_ || is_disputed_ || !terminals_agree(word_);
  word_ = character;
  word_column_ = before_word_ = extra_ = 0;
  is_disputed_ = false;
  can_move_ = false;
  column_ = text_columns(character);
}

// Moves the current word to the next row. The last character of the word is not written yet.
void WordWrap::move_word(std::string& out) {
  if (is_written_ && is_disputed_) {
    out += "\x1b[" + std::to_string(column_ - before_word_) + "D\x1b[K";
  } else if (is_written_) {
    out += "\r";
    if (before_word_ > 0) out += "\x1b[" + std::to_string(before_word_) + "C";
    out += "\x1b[K";
  }
  before_word_ = word_column_ = begin_row(out);
  held_gap_ = extra_ = 0;
  if (may_erase_) write_word(out);
  is_disputed_ = can_move_ = false;
  column_ = word_column_ + text_columns(word_);
}

void WordWrap::write_word(std::string& out) {
  out.append(held_gap_, ' ');
  out += word_;
  held_gap_ = 0;
  is_written_ = true;
}

void WordWrap::end_word(std::string& out) {
  if (!is_written_) write_word(out);
  is_written_ = false;
  extra_ += widest_text_columns(word_) - text_columns(word_);
  is_disputed_ = is_disputed_ || !terminals_agree(word_);
  word_.clear();
}

std::string wrapped(std::string_view text, size_t width) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    // Two or more blanks separate the columns of a table.
    const size_t first = std::min(line.find_first_not_of(' '), line.size());
    size_t indent = first;
    if (const size_t gap = line.find("  ", first); gap != std::string_view::npos) {
      const size_t second = line.find_first_not_of(' ', gap);
      if (second != std::string_view::npos) indent = text_columns(line.substr(0, second));
    }
    if (indent > width / 2) indent = std::min(width / 2, first + 2);
    size_t column = 0;
    for (size_t i = 0; i < line.size();) {
      const size_t word = std::min(line.find_first_not_of(' ', i), line.size());
      const size_t word_end = std::min(line.find(' ', word), line.size());
      const size_t columns = text_columns(line.substr(word, word_end - word));
      if (column > indent && column + (word - i) + columns > width) {
        out += "\n" + std::string(indent, ' ');
        column = indent + columns;
      } else if (word < line.size()) {
        out.append(word - i, ' ');
        column += word - i + columns;
      }
      out += line.substr(word, word_end - word);
      i = word_end;
    }
    text.remove_prefix(end);
    if (!text.empty()) {
      out += '\n';
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace ibid
