// Numbers as Python writes and reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ibid::jinja {

// repr(float): the shortest digits that read back, "1e+16", "1.0", "inf", "nan".
std::string float_text(double value);
// json.dumps of a float: as repr, but Infinity, -Infinity, NaN.
std::string float_json(double value);
// printf-like: `precision` digits, `type` one of e f g E F G.
std::string format_float(double value, int precision, char type);

// int(text, base) and float(text): surrounding white space and single underscores between digits are allowed.
std::optional<int64_t> parse_int(std::string_view text, int base = 10);
std::optional<double> parse_float(std::string_view text);

}  // namespace ibid::jinja
