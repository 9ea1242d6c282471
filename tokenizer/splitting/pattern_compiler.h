// PatternCompiler: compiles an expression into the program of a Pattern, or says which part of it is not known.
// Used once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/splitting/pattern.h"

namespace ibid {

// --- PatternText: an expression as it is read, from front to back, and the first thing in it that is not known.

class PatternText {
 public:
  static constexpr size_t kMaxDepth = 200;  // of groups, alternatives and sets

  explicit PatternText(std::string_view expression) : rest_(expression) {}

  std::string_view rest() const { return rest_; }
  // REQUIRES: n <= rest().size()
  void skip(size_t n) { rest_.remove_prefix(n); }
  // Goes on behind `text` if it comes next, and says whether it did.
  bool take(std::string_view text);
  // The letter after a backslash; the end of the expression is an error.
  char take_letter();
  // One character of a set; the end of the expression is an error.
  uint32_t character();

  // One level deeper. False: deeper than kMaxDepth.
  bool enter() { return ++depth_ <= kMaxDepth; }
  void leave() { --depth_; }

  // Only the first call counts. It drops the rest of the expression, which ends every loop over it.
  void fail(std::string_view what);
  bool failed() const { return failure_.has_value(); }
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  std::string_view rest_;
  size_t depth_ = 0;
  std::optional<std::string> failure_;
};

// --- CharSetReader: reads the part of an expression that stands for one character of a text: the character itself, an
// escape, a class, or a set in brackets. Unknown syntax is a failure of the PatternText.

class CharSetReader {
 public:
  // `text` must outlive it.
  explicit CharSetReader(PatternText& text) : text_(text) {}

  CharSet read();

  // Behind (?i: letters stand for both cases.
  bool ignores_case() const { return ignores_case_; }
  void set_ignores_case(bool ignores_case) { ignores_case_ = ignores_case; }
  // The next character does not follow directly on the one before: the two are no pair of letters.
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

// --- PatternCompiler.

class PatternCompiler {
 public:
  PatternCompiler(std::string_view expression, Pattern& out) : text_(expression), out_(out) {}
  PatternCompiler(const PatternCompiler&) = delete;
  PatternCompiler& operator=(const PatternCompiler&) = delete;
  // The part that is not known; nothing when all of it is.
  std::optional<std::string> compile();

 private:
  using Op = Pattern::Op;
  using Program = std::vector<Pattern::Instruction>;

  void alternatives();
  void sequence();
  void item();
  void group();
  void quantify(size_t begin);
  void repeat_group(size_t begin, uint32_t min, uint32_t max);
  bool bounds(uint32_t& min, uint32_t& max);
  void emit(Pattern::Instruction instruction);
  void emit_set(CharSet set);
  // Makes room for an instruction in front of program[at]; jumps behind it move along.
  void insert(size_t at, Pattern::Instruction instruction);
  // Instructions with their jumps moved by `distance`.
  void copy(const Program& body, size_t distance);
  // Whether the program can get from `begin` to `end` without consuming a character; `boundary`: by way of a word's
  // border.
  bool may_be_empty(size_t begin, size_t end, bool& boundary) const;
  size_t here() const { return out_.program_.size(); }

  PatternText text_;
  CharSetReader sets_{text_};
  Pattern& out_;
};

}  // namespace ibid
