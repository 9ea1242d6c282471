#include "tokenizer/splitting/pattern_text.h"

#include "base/utf8.h"

namespace ibid {

void PatternText::fail(std::string_view what) {
  if (!failure_) failure_ = std::string(what);
  rest_ = {};
}

bool PatternText::take(std::string_view text) {
  if (!rest_.starts_with(text)) return false;
  rest_.remove_prefix(text.size());
  return true;
}

char PatternText::take_letter() {
  if (rest_.empty()) {
    fail("an end behind \\");
    return ' ';
  }
  const char letter = rest_[0];
  rest_.remove_prefix(1);
  return letter;
}

uint32_t PatternText::character() {
  if (rest_.empty()) {
    fail("a set without its ]");
    return ' ';
  }
  const DecodedChar c = utf8_decode(rest_, 0);
  rest_.remove_prefix(c.length);
  return c.code_point;
}

}  // namespace ibid
