// Helpers for short texts: ASCII blanks, letters and digits, lists in sentences, and external text in messages.
// base/unicode has the blanks, letters and digits of other scripts. Pure functions, thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ibid {

inline constexpr std::string_view kBlanks = " \t\r\n";
constexpr bool is_blank(char c) { return kBlanks.find(c) != kBlanks.npos; }

// Returns `text` without leading and trailing characters of `blanks`.
constexpr std::string_view trimmed(std::string_view text, std::string_view blanks = kBlanks) {
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

// --- ASCII letters. Bytes that are not ASCII letters stay unchanged.

constexpr char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr char upper_ascii(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
std::string lower_ascii(std::string_view text);

constexpr bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower_ascii(x) == lower_ascii(y); });
}
constexpr bool starts_ignoring_case(std::string_view text, std::string_view start) {
  return equals_ignoring_case(text.substr(0, start.size()), start);
}

// --- Numbers.

constexpr bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }
// True if all characters are ASCII digits; also true for an empty text.
constexpr bool has_only_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_decimal_digit);
}

// 0 to 15 for a hexadecimal digit of either case, else -1.
constexpr int hex_digit(char c) {
  if (is_decimal_digit(c)) return c - '0';
  const char letter = lower_ascii(c);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}
// Appends the low n_digits hexadecimal digits of `value`, in lower case.
void append_hex(std::string& out, uint64_t value, size_t n_digits);

// `value` in decimal, padded with zeros to n_digits digits.
std::string padded_number(uint64_t value, size_t n_digits);
// The shortest text that reads back as the same double.
std::string number_text(double value);
// A number with its noun: "1 turn", "2 turns".
std::string counted(uint64_t n, std::string_view what);
// Nanoseconds since 1970 as a date and time of UTC, to the second: "2026-01-31T12:00:00".
std::string iso_time(int64_t unix_ns);
// 32 random hexadecimal digits.
std::string random_digits();

// --- Lists.

// "a, b, c": the texts of `items` (strings, views, C strings) with `separator` between them.
template <typename Items>
std::string joined(const Items& items, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& item : items) {
    if (!first) text += separator;
    text += item;
    first = false;
  }
  return text;
}

// Appends `part` to `list`, after a separator unless the list is empty.
void append_part(std::string& list, std::string_view part, std::string_view separator = ", ");

// Calls visit(piece) for each text between separators, in order, until a call returns true.
template <typename Visit>
void for_each_piece(std::string_view text, char separator, Visit&& visit) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (visit(text.substr(begin, end - begin))) return;
    begin = end + 1;
  }
}

// --- External text, made printable: a hostile file must not control a terminal or a log.

// `text` in single quotes: invalid UTF-8 and control characters replaced, truncated to 100 bytes.
std::string in_quotes(std::string_view text);
// A value that a message lists beside its name: invalid UTF-8 replaced, truncated to 200 bytes.
std::string shown_value(std::string_view text);

}  // namespace ibid
