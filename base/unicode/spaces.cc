#include "base/unicode/spaces.h"

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {

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
