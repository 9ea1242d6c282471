// Python's two ways to format text: '%s' % x and '{}'.format(x). Literal text keeps its origin, inserted text
// that of what was inserted.
#pragma once

#include "tokenizer/jinja/state.h"
#include "tokenizer/jinja/value.h"

namespace ibid::jinja {

class Interpreter;

Value format_percent(RenderState& state, const Value& format, const Value& arguments);
Value format_braces(Interpreter& interpreter, const Value& format, const Arguments& arguments);

// `text` padded with `fill` to `width` characters. align: '<', '>' or '^' (str.center's way of rounding).
MarkedString pad(RenderState& state, const MarkedString& text, int64_t width, char align, std::string_view fill = " ");

}  // namespace ibid::jinja
