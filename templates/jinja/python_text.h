// Text as in Python: classes of code points, case mappings, positions in code points, the str methods, and numbers as
// text. Input and output are UTF-8; an invalid byte sequence counts as one character and is passed through. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "templates/jinja/state.h"

namespace ibid::jinja {

// Each function tests one code point as a method of Python's str does: isprintable(), isalpha() ...
bool is_printable(uint32_t c);
bool is_alpha(uint32_t c);
bool is_decimal(uint32_t c);
bool is_digit(uint32_t c);
bool is_numeric(uint32_t c);
bool is_space(uint32_t c);
bool is_lower(uint32_t c);
bool is_upper(uint32_t c);
bool is_title(uint32_t c);
// True if `text` has a letter of this case and no letter of the other case.
bool has_only_case(std::string_view text, bool upper);
// True if `c` is allowed in a Python identifier.
bool may_be_in_identifier(uint32_t c, bool at_start);
inline bool is_alnum(uint32_t c) { return is_alpha(c) || is_numeric(c); }

// Returns the number of code points in `text`.
size_t count_chars(std::string_view text);
// Returns the byte offset of character `index`, or text.size() if the text has at most `index` characters.
size_t char_offset(std::string_view text, size_t index);
// Returns the length in bytes of the character at text[offset]. REQUIRES: offset < text.size().
size_t char_length(std::string_view text, size_t offset);

// str.upper, lower, title, capitalize, swapcase and casefold. Origins are kept.
enum class CaseChange { kUpper, kLower, kTitle, kCapitalize, kSwap, kFold };
// Cost of changing the case of one byte, charged as bytes scanned (Meter): characters beyond ASCII need table look-ups.
inline constexpr size_t kCaseCost = 8;
MarkedText change_case(const MarkedText& text, CaseChange change);

// Returns the number of bytes of white space at the start or end of `text` (str.strip without arguments).
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

// --- The str methods, for filters and methods alike. Origins are kept; every call charges the meter for the bytes that
// it reads.

enum class Side : uint8_t { kLeft, kRight, kBoth };

// str.strip() and str.strip(chars): `chars` is a set of characters.
MarkedText strip(RenderState& state, const MarkedText& text, Side side);
MarkedText strip(RenderState& state, const MarkedText& text, Side side, std::string_view chars);

// str.replace. max < 0: replaces all occurrences.
MarkedText replace(RenderState& state, const MarkedText& text, std::string_view old, const MarkedText& with,
                   int64_t max);

// str.split / rsplit: at white space, or at `separator` (not empty). max < 0: no limit.
std::vector<MarkedText> split_space(RenderState& state, const MarkedText& text, int64_t max, bool from_right);
std::vector<MarkedText> split(RenderState& state, const MarkedText& text, std::string_view separator, int64_t max,
                              bool from_right);
std::vector<MarkedText> split_lines(RenderState& state, const MarkedText& text, bool keep_ends);

// --- Numbers in the notation of Python.

// Returns repr(float): the shortest digits that parse to the same value: "1e+16", "1.0", "inf", "nan".
std::string float_text(double value);
// Returns json.dumps of a float: as repr(float), but with Infinity, -Infinity, NaN.
std::string float_json(double value);
// Formats as printf does: `precision` digits, `type` one of e f g E F G.
std::string format_float(double value, int precision, char type);

// int(text, base) and float(text): allow white space around the number, and single underscores between digits.
std::optional<int64_t> parse_int(std::string_view text, int base = 10);
std::optional<double> parse_float(std::string_view text);

}  // namespace ibid::jinja
