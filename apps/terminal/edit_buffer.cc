#include "apps/terminal/edit_buffer.h"

#include <algorithm>
#include <utility>

#include "apps/terminal/graphemes.h"
#include "base/text.h"

namespace ibid {

namespace {

constexpr size_t kMaxCharacter = 4;  // maximum bytes of a typed character: longer text is a paste
constexpr size_t kMaxMoments = 200;
constexpr size_t kMaxMomentBytes = 16'000'000;  // limit for all undo states together, because pastes may be long

bool is_word(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  return letter || static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

void EditBuffer::remember() {
  typed_to_ = kNowhere;
  undo_states_.push_back({text_, cursor_});
  const size_t most = std::min(kMaxMoments, kMaxMomentBytes / (text_.size() + 1) + 1);
  if (undo_states_.size() > most)
    undo_states_.erase(undo_states_.begin(), undo_states_.end() - static_cast<ptrdiff_t>(most));
}

void EditBuffer::undo() {
  if (undo_states_.empty()) return;
  typed_to_ = kNowhere;
  text_ = std::move(undo_states_.back().text);
  cursor_ = undo_states_.back().cursor;
  undo_states_.pop_back();
}

void EditBuffer::replace(std::string_view text) {
  remember();
  text_ = text;
  cursor_ = text_.size();
}

void EditBuffer::reset() {
  text_.clear();
  cursor_ = 0;
  typed_to_ = kNowhere;
  undo_states_.clear();
}

void EditBuffer::insert(std::string_view text) {
  if (text.empty()) return;
  const bool goes_on = cursor_ == typed_to_ && !is_blank(text.front()) && text.size() <= kMaxCharacter;
  if (!goes_on) remember();
  text_.insert(cursor_, text);
  cursor_ += text.size();
  typed_to_ = cursor_;
}

void EditBuffer::replace_before_cursor(size_t begin, std::string_view text) {
  remember();
  text_.replace(begin, cursor_ - begin, text);
  cursor_ = begin + text.size();
}

void EditBuffer::erase(size_t begin, size_t end) {
  if (begin == end) return;
  remember();
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

void EditBuffer::kill(size_t begin, size_t end) {
  if (begin == end) return;
  killed_ = text_.substr(begin, end - begin);
  erase(begin, end);
}

void EditBuffer::erase_left() {
  if (cursor_ > 0) erase(grapheme_begin(text_, cursor_), cursor_);
}

void EditBuffer::erase_right() {
  if (cursor_ < text_.size()) erase(cursor_, grapheme_end(text_, cursor_));
}

size_t EditBuffer::line_begin() const {
  return cursor_ == 0 ? 0 : text_.rfind('\n', cursor_ - 1) + 1;  // if there is no newline, npos + 1 is 0
}

size_t EditBuffer::line_end() const { return std::min(text_.find('\n', cursor_), text_.size()); }

size_t EditBuffer::word_begin() const {
  size_t i = cursor_;
  while (i > 0 && !is_word(text_[i - 1])) --i;
  while (i > 0 && is_word(text_[i - 1])) --i;
  return i;
}

size_t EditBuffer::word_end() const {
  size_t i = cursor_;
  while (i < text_.size() && !is_word(text_[i])) ++i;
  while (i < text_.size() && is_word(text_[i])) ++i;
  return i;
}

void EditBuffer::erase_word_left() { kill(word_begin(), cursor_); }
void EditBuffer::erase_word_right() { kill(cursor_, word_end()); }

void EditBuffer::erase_argument_left() {
  size_t i = cursor_;
  while (i > 0 && is_blank(text_[i - 1])) --i;
  while (i > 0 && !is_blank(text_[i - 1])) --i;
  kill(i, cursor_);
}

void EditBuffer::kill_to_end() {
  const size_t end = line_end();
  kill(cursor_, end == cursor_ && end < text_.size() ? end + 1 : end);
}

void EditBuffer::kill_to_begin() { kill(line_begin(), cursor_); }

void EditBuffer::yank() { insert(killed_); }

void EditBuffer::transpose() {
  if (cursor_ == 0 || text_.empty()) return;
  const size_t middle = cursor_ == text_.size() ? grapheme_begin(text_, cursor_) : cursor_;
  if (middle == 0) return;
  const size_t begin = grapheme_begin(text_, middle);
  const size_t end = grapheme_end(text_, middle);
  remember();
  const std::string swapped = text_.substr(middle, end - middle) + text_.substr(begin, middle - begin);
  text_.replace(begin, end - begin, swapped);
  cursor_ = end;
}

void EditBuffer::left() {
  if (cursor_ > 0) cursor_ = grapheme_begin(text_, cursor_);
}

void EditBuffer::right() {
  if (cursor_ < text_.size()) cursor_ = grapheme_end(text_, cursor_);
}

void EditBuffer::word_left() { cursor_ = word_begin(); }
void EditBuffer::word_right() { cursor_ = word_end(); }
void EditBuffer::to_line_begin() { cursor_ = line_begin(); }
void EditBuffer::to_line_end() { cursor_ = line_end(); }

void EditBuffer::to_column(size_t line_begin, size_t columns) {
  cursor_ = line_begin;
  size_t column = 0;
  while (cursor_ < text_.size() && text_[cursor_] != '\n') {
    const size_t end = grapheme_end(text_, cursor_);
    column += grapheme_columns(std::string_view(text_).substr(cursor_, end - cursor_));
    if (column > columns) break;
    cursor_ = end;
  }
}

bool EditBuffer::up() {
  const size_t begin = line_begin();
  if (begin == 0) return false;
  const size_t columns = text_columns(std::string_view(text_).substr(begin, cursor_ - begin));
  const size_t above = begin == 1 ? 0 : text_.rfind('\n', begin - 2) + 1;
  to_column(above, columns);
  return true;
}

bool EditBuffer::down() {
  const size_t end = line_end();
  if (end == text_.size()) return false;
  const size_t begin = line_begin();
  to_column(end + 1, text_columns(std::string_view(text_).substr(begin, cursor_ - begin)));
  return true;
}

LaidOutText lay_out(std::string_view prompt, std::string_view text, size_t cursor, size_t width) {
  LaidOutText out;
  const size_t margin = text_columns(prompt);
  out.rows.emplace_back(prompt);
  size_t column = margin;
  size_t extra = 0;  // additional columns of this row on terminals that do not join emoji
  const auto next_row = [&](size_t indent) {
    out.rows.emplace_back(indent, ' ');
    column = indent;
    extra = 0;
  };
  for (size_t i = 0;;) {
    const bool tab = i < text.size() && text[i] == '\t';
    const size_t end = i < text.size() ? grapheme_end(text, i) : i;
    const std::string_view cluster = text.substr(i, end - i);
    size_t columns = tab ? kTabColumns - column % kTabColumns : grapheme_columns(cluster);
    const bool newline = cluster == "\n";
    // If the row is full, the cursor and the text after it move to the next row.
    const size_t needed = cluster.empty() ? 1 : tab ? columns : widest_columns(cluster);
    if (column + extra + needed > width && !newline) next_row(0);
    if (i == cursor) {
      if (column + extra >= width) next_row(0);
      out.cursor_row = out.rows.size() - 1;
      out.cursor_column = column;
    }
    if (i >= text.size() || newline) {  // writes no trailing blanks in empty lines, so that none are copied
      if (out.rows.size() > 1 && out.rows.back() == std::string(margin, ' ')) out.rows.back().clear();
    }
    if (i >= text.size()) return out;
    if (newline) {
      next_row(margin);
    } else if (tab) {
      columns = kTabColumns - column % kTabColumns;
      if (column + extra + columns > width) columns = width - column - extra;
      out.rows.back().append(columns, ' ');
      column += columns;
    } else {
      out.rows.back() += cluster;
      column += columns;
      extra += needed - columns;
    }
    i = end;
  }
}

}  // namespace ibid
