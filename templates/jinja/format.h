// Python's two ways to format text: '%s' % x and '{}'.format(x). Inserted text keeps its origin; under a
// format that is not all the template's own, everything is input.
#pragma once

#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

class Evaluator;

Value format_percent(RenderState& state, const Value& format, const Value& arguments);
Value format_braces(Evaluator& evaluator, const Value& format, const Arguments& arguments);

// `text` padded with `fill` to `width` characters. align: '<', '>' or '^' (str.center's way of rounding).
MarkedText pad(RenderState& state, const MarkedText& text, int64_t width, char align,
                 std::string_view fill = " ", TextOrigin fill_origin = TextOrigin::kTemplate);

// `text`, formatted by `format`: as it is, or all input when the format has input in it.
MarkedText under_format(const Value& format, MarkedText text);

}  // namespace ibid::jinja
