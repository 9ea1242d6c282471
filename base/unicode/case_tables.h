// The generated tables behind unicode_text.h: sorted ranges of code points (Unicode 16.0). What follows from general
// categories is not among them: base/unicode/unicode.h has those.
#pragma once

#include <cstdint>
#include <span>

namespace ibid::unicode_data {

struct CodeRange {
  uint32_t first, last;
};
// Every `stride`-th code point of [first, last] maps to itself plus delta.
struct CaseRange {
  uint32_t first, last, stride;
  int32_t delta;
};
// A code point that maps to several; text is UTF-8.
struct CaseSpecial {
  uint32_t code_point;
  const char* text;
};
struct CaseTable {
  std::span<const CaseRange> ranges;
  std::span<const CaseSpecial> specials;
};

std::span<const CodeRange> digit_ranges();
std::span<const CodeRange> numeric_ranges();
std::span<const CodeRange> lower_ranges();
std::span<const CodeRange> upper_ranges();
std::span<const CodeRange> case_ignorable_ranges();
std::span<const CodeRange> cased_ranges();
CaseTable to_upper_table();
CaseTable to_lower_table();
CaseTable to_title_table();
CaseTable to_folded_table();

}  // namespace ibid::unicode_data
