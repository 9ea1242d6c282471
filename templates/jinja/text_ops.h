// Python's str methods on MarkedText, for filters and methods alike. Origins are kept; every call charges
// the meter for what it looks at.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "templates/jinja/state.h"

namespace ibid::jinja {

enum class Side : uint8_t { kLeft, kRight, kBoth };

// str.strip() and str.strip(chars): `chars` is a set of characters.
MarkedText strip(RenderState& state, const MarkedText& text, Side side);
MarkedText strip(RenderState& state, const MarkedText& text, Side side, std::string_view chars);

// str.replace; max < 0: all.
MarkedText replace(RenderState& state, const MarkedText& text, std::string_view old,
                     const MarkedText& with, int64_t max);

// str.split / rsplit: at white space, or at `separator` (not empty). max < 0: all.
std::vector<MarkedText> split_space(RenderState& state, const MarkedText& text, int64_t max,
                                      bool from_right);
std::vector<MarkedText> split(RenderState& state, const MarkedText& text, std::string_view separator,
                                int64_t max, bool from_right);
std::vector<MarkedText> split_lines(RenderState& state, const MarkedText& text, bool keep_ends);

}  // namespace ibid::jinja
