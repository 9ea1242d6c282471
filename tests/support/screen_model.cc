#include "tests/support/screen_model.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/utf8.h"

namespace ibid {
namespace {

struct Range {
  char32_t first, last;
};
// Written by hand for the tests, not generated, so that it checks the program's own tables independently.
constexpr Range kZero[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},    {0x64B, 0x65F},
                           {0x93C, 0x93C},   {0x941, 0x948},   {0x94D, 0x94D},   {0xE31, 0xE31},    {0xE34, 0xE3A},
                           {0xE47, 0xE4E},   {0x1160, 0x11FF}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},  {0x200B, 0x200F},
                           {0x202A, 0x202E}, {0x2060, 0x2064}, {0x20D0, 0x20FF}, {0x302A, 0x302D},  {0x3099, 0x309A},
                           {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0000, 0xE0FFF}};
constexpr Range kWide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x25FD, 0x25FE},   {0x2614, 0x2615},
    {0x26A1, 0x26A1},   {0x2705, 0x2705},   {0x2728, 0x2728},   {0x274C, 0x274C},   {0x2753, 0x2755},
    {0x2B50, 0x2B50},   {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},
    {0xA000, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
    {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F004, 0x1F004}, {0x1F18E, 0x1F18E}, {0x1F200, 0x1F320},
    {0x1F32D, 0x1F335}, {0x1F337, 0x1F37C}, {0x1F37E, 0x1F393}, {0x1F3A0, 0x1F3CA}, {0x1F3CF, 0x1F3D3},
    {0x1F3E0, 0x1F3F0}, {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E}, {0x1F440, 0x1F440}, {0x1F442, 0x1F4FC},
    {0x1F4FF, 0x1F53D}, {0x1F54B, 0x1F567}, {0x1F57A, 0x1F57A}, {0x1F595, 0x1F596}, {0x1F5A4, 0x1F5A4},
    {0x1F5FB, 0x1F64F}, {0x1F680, 0x1F6C5}, {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6FF}, {0x1F900, 0x1F9FF},
    {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD}};

constexpr char32_t kZwj = 0x200D, kVariationSelector16 = 0xFE0F;
constexpr size_t kTab = 8;

template <size_t n>
bool is_in(const Range (&ranges)[n], char32_t c) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](Range r) { return c >= r.first && c <= r.last; });
}

bool is_regional(char32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }
bool is_skin_tone(char32_t c) { return c >= 0x1F3FB && c <= 0x1F3FF; }

// True if the escape sequence that begins "ESC..." is complete.
bool is_complete(std::string_view s) {
  if (s.size() < 2) return false;
  if (s[1] == '[') return s.size() > 2 && s.back() >= '@' && s.back() <= '~';
  if (s[1] == ']') return s.back() == '\a' || s.ends_with("\x1b\\");
  return true;
}

}  // namespace

size_t terminal_columns(char32_t c) {
  if (is_in(kZero, c)) return 0;
  return is_in(kWide, c) || is_skin_tone(c) ? 2 : 1;
}

ScreenModel::ScreenModel(size_t rows, size_t columns, bool joins_emoji)
    : n_columns_(columns), joins_emoji_(joins_emoji), grid_(rows, Row(columns)) {}

void ScreenModel::resize(size_t rows, size_t columns) {
  n_columns_ = columns;
  for (Row& row : grid_) row.resize(columns);
  while (grid_.size() > rows) {
    if (row_ + 1 < grid_.size()) {
      grid_.pop_back();
    } else {
      scrolled_.push_back(row_text(grid_.front()));
      grid_.erase(grid_.begin());
      --row_;
    }
  }
  grid_.resize(rows, Row(columns));
  column_ = std::min(column_, columns - 1);
  wrap_waits_ = false;
}

void ScreenModel::feed(std::string_view bytes) {
  for (const char c : bytes) {
    pending_ += c;
    if (pending_[0] == '\x1b') {
      if (!is_complete(pending_)) continue;
      sequence(std::exchange(pending_, {}));
    } else if (pending_.size() == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)) {
      pending_.clear();
      control(static_cast<unsigned char>(c));
    } else if (utf8_incomplete_tail(pending_) == 0) {
      put(utf8_decode(pending_, 0).code_point);
      pending_.clear();
    }
  }
}

ScreenModel::Cell* ScreenModel::last_cell() {
  size_t column = wrap_waits_ ? column_ + 1 : column_;
  if (column == 0) return nullptr;
  --column;
  if (grid_[row_][column].second_half && column > 0) --column;
  return &grid_[row_][column];
}

bool ScreenModel::joins_previous(char32_t c) const {
  if (!joins_emoji_) return terminal_columns(c) == 0;
  return terminal_columns(c) == 0 || before_ == kZwj || is_skin_tone(c) || (is_regional(c) && is_regional(before_));
}

void ScreenModel::put(char32_t c) {
  std::string text;
  utf8_append(text, c);
  Cell* last = last_cell();
  const bool joined = last != nullptr && !last->text.empty() && joins_previous(c);
  const bool widens = joined && joins_emoji_ && (c == kVariationSelector16 || is_regional(c)) &&
                      column_ + 1 < n_columns_ && !wrap_waits_ && !grid_[row_][column_ - 1].second_half;
  before_ = joined && is_regional(c) ? 0 : c;
  if (joined) {
    last->text += text;
    if (widens) grid_[row_][column_++].second_half = true;
    return;
  }
  const size_t width = terminal_columns(c);
  if (width == 0) return;  // nothing to combine with
  if (wrap_waits_ || column_ + width > n_columns_) {
    column_ = 0;
    line_feed();
  }
  wrap_waits_ = false;
  Row& row = grid_[row_];
  erase(row, column_, column_ + width);
  row[column_].text = text;
  if (width == 2) row[column_ + 1] = {"", true};
  column_ += width;
  if (column_ < n_columns_) return;
  column_ = n_columns_ - 1;
  wrap_waits_ = true;
}

// If one half of a wide character is erased, so is the other.
void ScreenModel::erase(Row& row, size_t begin, size_t end) {
  end = std::min(end, row.size());
  if (begin > 0 && begin < row.size() && row[begin].second_half) row[begin - 1] = {};
  if (end < row.size() && row[end].second_half) row[end] = {};
  for (size_t i = begin; i < end; ++i) row[i] = {};
}

void ScreenModel::line_feed() {
  wrap_waits_ = false;
  if (row_ + 1 < grid_.size()) {
    ++row_;
    return;
  }
  scrolled_.push_back(row_text(grid_.front()));
  grid_.erase(grid_.begin());
  grid_.emplace_back(n_columns_);
}

void ScreenModel::control(unsigned char c) {
  before_ = 0;
  if (c == '\n') return line_feed();
  if (c == '\r') column_ = 0;
  if (c == '\b' && column_ > 0) --column_;
  if (c == '\t') column_ = std::min((column_ / kTab + 1) * kTab, n_columns_ - 1);
  if (c == '\r' || c == '\b' || c == '\t') wrap_waits_ = false;
  if (c != '\r' && c != '\b' && c != '\t' && c != '\a') unknown_.push_back("control " + std::to_string(c));
}

void ScreenModel::sequence(const std::string& whole) {
  before_ = 0;
  ++n_sequences_;
  if (whole.size() > 2 && whole[1] == '[' && whole.back() == 'm') {
    --n_sequences_;
    ++n_colours_;
    return;
  }
  if (whole == "\x1b[?2004h" || whole == "\x1b[?2004l") {
    bracketed_paste_ = whole.back() == 'h';
    return;
  }
  size_t n = 0;
  const char* end = whole.data() + whole.size() - 1;
  const bool plain = whole.size() > 2 && whole[1] == '[' &&
                     (whole.size() == 3 || std::from_chars(whole.data() + 2, end, n).ptr == end);
  const size_t count = std::max<size_t>(n, 1);
  Row& row = grid_[row_];
  if (plain && whole.back() == 'A') {
    row_ -= std::min(row_, count);
  } else if (plain && whole.back() == 'B') {
    row_ = std::min(row_ + count, grid_.size() - 1);
  } else if (plain && whole.back() == 'C') {
    column_ = std::min(column_ + count, n_columns_ - 1);
  } else if (plain && whole.back() == 'D') {
    column_ -= std::min(column_, count);
  } else if (plain && whole.back() == 'G') {
    column_ = std::min(count, n_columns_) - 1;
  } else if (plain && whole.back() == 'K' && (n == 0 || n == 2)) {
    erase(row, n == 0 ? column_ : 0, n_columns_);
  } else if (plain && whole.back() == 'J' && (n == 0 || n == 2)) {
    if (n == 0) erase(row, column_, n_columns_);
    for (size_t i = n == 0 ? row_ + 1 : 0; i < grid_.size(); ++i) erase(grid_[i], 0, n_columns_);
  } else if (whole == "\x1b[H") {
    row_ = column_ = 0;
  } else {
    unknown_.push_back(whole.substr(1));
    return;
  }
  wrap_waits_ = false;
}

std::string ScreenModel::row_text(const Row& row) {
  size_t end = row.size();
  while (end > 0 && row[end - 1].text.empty() && !row[end - 1].second_half) --end;
  std::string text;
  for (size_t i = 0; i < end; ++i) {
    if (row[i].second_half) continue;
    text += row[i].text.empty() ? " " : row[i].text;
  }
  return text;
}

std::string ScreenModel::row(size_t i) const { return row_text(grid_.at(i)); }

std::string ScreenModel::text() const {
  std::string text, blank_rows;
  for (const Row& row : grid_) {
    const std::string line = row_text(row);
    if (!line.empty()) {
      text += blank_rows + line;
      blank_rows.clear();
    }
    blank_rows += '\n';
  }
  return text;
}

std::string ScreenModel::everything() const {
  std::string all;
  for (const std::string& row : scrolled_) all += row + "\n";
  return all + text();
}

}  // namespace ibid
