// CharSetReader: reads what an expression writes for one character of a text. Itself, an escape, a class, or a set in
// brackets. What it does not know is a failure of the PatternText.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tokenizer/splitting/char_set.h"
#include "tokenizer/splitting/pattern_text.h"

namespace ibid {

class CharSetReader {
 public:
  // `text` must outlive it.
  explicit CharSetReader(PatternText& text) : text_(text) {}

  CharSet read();

  // Behind (?i: letters stand for both cases.
  bool ignores_case() const { return ignores_case_; }
  void set_ignores_case(bool ignores_case) { ignores_case_ = ignores_case; }
  // What is read next does not follow directly on the character before: the two are no pair of letters.
  void forget_last() { last_folded_ = 0; }

 private:
  CharSet bracket();
  void add_range(CharSet& out);
  bool add_class(char letter, CharSet& out);
  void add_property(bool lacks, CharSet& out);
  // The character that an escape stands for, if it stands for one; `letter` was read.
  uint32_t escaped(char letter);
  uint32_t hexadecimal(size_t n_digits);
  void add_with_case(uint32_t first, uint32_t last, CharSet& out);

  PatternText& text_;
  bool ignores_case_ = false;
  uint32_t last_folded_ = 0;  // the character before, where letter case does not count
};

}  // namespace ibid
