#include "base/unicode/unicode.h"

#include <algorithm>

#include "base/utf8.h"

namespace ibid {

bool append_case_mapping(std::string& out, const CaseTable& table, uint32_t code_point) {
  const auto special = std::ranges::lower_bound(table.specials, code_point, {}, &CaseSpecial::code_point);
  if (special != table.specials.end() && special->code_point == code_point) {
    out += special->text;
    return true;
  }
  const auto next_range = std::ranges::upper_bound(table.ranges, code_point, {}, &CaseRange::first);
  if (next_range == table.ranges.begin()) return false;
  const CaseRange& range = *std::prev(next_range);
  if (code_point > range.last || (code_point - range.first) % range.stride != 0) return false;
  utf8_append(out, code_point + static_cast<uint32_t>(range.delta));
  return true;
}

size_t spaces_begin(std::string_view text, size_t end, size_t floor) {
  while (end > floor) {
    const size_t begin = utf8_previous(text, end);
    const DecodedChar c = utf8_decode(text.substr(0, end), begin);
    if (!c.valid || !is_space(c.code_point)) break;
    end = begin;
  }
  return end;
}

size_t spaces_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const DecodedChar c = utf8_decode(text, begin);
    if (!c.valid || !is_space(c.code_point)) break;
    begin += c.length;
  }
  return begin;
}

}  // namespace ibid
