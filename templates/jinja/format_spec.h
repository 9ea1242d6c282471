// Python's format specification: [[fill]align][sign][#][0][width][,][.precision][type].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/marked_text.h"
#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

struct FormatSpec {
  std::string fill = " ";
  char align = 0;   // '<' '>' '^' '=', 0: the type's own
  char sign = '-';  // '-' only negative, '+' always, ' ' a space
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  char grouping = 0;  // ',' or '_'
  std::optional<int64_t> precision;
  char type = 0;
};

// Fails for what is no specification.
FormatSpec parse_format_spec(std::string_view text);

MarkedText format_text(RenderState& state, const MarkedText& text, const FormatSpec& spec);
// REQUIRES: value.is_number().
MarkedText format_number(RenderState& state, const Value& value, const FormatSpec& spec);

}  // namespace ibid::jinja
