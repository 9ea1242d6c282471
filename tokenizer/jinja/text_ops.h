// Python's str methods on MarkedString, for filters and methods alike. Origins are kept; every call charges
// the meter for what it looks at.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/marked_string.h"
#include "tokenizer/jinja/state.h"

namespace ibid::jinja {

enum class Side : uint8_t { kLeft, kRight, kBoth };

// str.strip() and str.strip(chars): `chars` is a set of characters.
MarkedString strip(RenderState& state, const MarkedString& text, Side side);
MarkedString strip(RenderState& state, const MarkedString& text, Side side, std::string_view chars);

// str.replace; max < 0: all.
MarkedString replace(RenderState& state, const MarkedString& text, std::string_view old,
                     const MarkedString& with, int64_t max);

// str.split / rsplit: at white space, or at `separator` (not empty). max < 0: all.
std::vector<MarkedString> split_space(RenderState& state, const MarkedString& text, int64_t max,
                                      bool from_right);
std::vector<MarkedString> split(RenderState& state, const MarkedString& text, std::string_view separator,
                                int64_t max, bool from_right);
std::vector<MarkedString> split_lines(RenderState& state, const MarkedString& text, bool keep_ends);

}  // namespace ibid::jinja
