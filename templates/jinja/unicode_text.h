// Python's view of text: classes of code points, case mappings, and positions counted in code points.
// UTF-8 in and out; an invalid byte sequence counts as one character and is passed through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/marked_text.h"

namespace ibid::jinja {

// str.isprintable() ... of one code point.
bool is_printable(uint32_t c);
bool is_alpha(uint32_t c);
bool is_decimal(uint32_t c);
bool is_digit(uint32_t c);
bool is_numeric(uint32_t c);
bool is_space(uint32_t c);
bool is_lower(uint32_t c);
bool is_upper(uint32_t c);
bool is_title(uint32_t c);
// A character of a Python identifier.
bool may_be_in_identifier(uint32_t c, bool at_start);
inline bool is_alnum(uint32_t c) { return is_alpha(c) || is_numeric(c); }

// Code points in `text`.
size_t count_chars(std::string_view text);
// Byte offset of character `index`, or text.size() when there are no more than `index`.
size_t char_offset(std::string_view text, size_t index);
// Bytes of the character at text[offset]. REQUIRES: offset < text.size().
size_t char_length(std::string_view text, size_t offset);

// The whole of str.upper, lower, title, capitalize, swapcase and casefold, origins kept.
enum class CaseChange { kUpper, kLower, kTitle, kCapitalize, kSwap, kFold };
// Work for a byte, in bytes scanned (meter.h): characters beyond ASCII go through tables.
inline constexpr size_t kCaseCost = 8;
MarkedText change_case(const MarkedText& text, CaseChange change);

// How many bytes of white space `text` starts and ends with (str.strip without arguments).
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

}  // namespace ibid::jinja
