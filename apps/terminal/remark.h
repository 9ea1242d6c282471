// What the program says beside answers, on standard error: notes, help, errors.
#pragma once

#include <cstdint>
#include <string_view>

namespace ibid {

enum class RemarkStyle : uint8_t { kPlain, kDim };

// The text and a newline. On a terminal its lines are broken at words to the terminal's width, and what a
// terminal would obey is left out; dim where colours are shown.
void remark(std::string_view text, RemarkStyle style = RemarkStyle::kPlain);

}  // namespace ibid
