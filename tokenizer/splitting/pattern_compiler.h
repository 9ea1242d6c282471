// PatternCompiler: compiles an expression into the program of a Pattern, or reports the part of the expression that is
// not supported. Used once.
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

// --- PatternText: a cursor over an expression, which also records the first unsupported part.

class PatternText {
 public:
  static constexpr size_t kMaxDepth = 200;  // maximum nesting of groups, alternatives and sets

  explicit PatternText(std::string_view expression) : rest_(expression) {}

  std::string_view rest() const { return rest_; }
  // REQUIRES: n <= rest().size()
  void skip(size_t n) { rest_.remove_prefix(n); }
  // Skips `text` if it comes next. Returns whether it was skipped.
  bool take(std::string_view text);
  // Reads the letter after a backslash; fails at the end of the expression.
  char take_letter();
  // Reads one character of a set; fails at the end of the expression.
  uint32_t character();

  // Enters a nesting level. Returns false beyond kMaxDepth.
  bool enter() { return ++depth_ <= kMaxDepth; }
  void leave() { --depth_; }

  // Records a failure, if it is the first, and drops the rest of the expression, which ends every loop over it.
  void fail(std::string_view what);
  bool failed() const { return failure_.has_value(); }
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  std::string_view rest_;
  size_t depth_ = 0;
  std::optional<std::string> failure_;
};

// --- CharSetReader: parses the part of an expression that matches one character: the character itself, an escape, a
// class, or a set in brackets. Unsupported syntax is a failure of the PatternText.

class CharSetReader {
 public:
  // `text` must outlive the object.
  explicit CharSetReader(PatternText& text) : text_(text) {}

  CharSet read();

  // True after (?i: , where letters match both cases.
  bool ignores_case() const { return ignores_case_; }
  void set_ignores_case(bool ignores_case) { ignores_case_ = ignores_case; }
  // Call if the next character does not directly follow the previous one in the text, so that the two are not tested as
  // a pair of letters that equals one letter in another case.
  void forget_last() { last_folded_ = 0; }

 private:
  CharSet bracket();
  void add_range(CharSet& out);
  bool add_class(char letter, CharSet& out);
  void add_property(bool lacks, CharSet& out);
  // Returns the character that an escape denotes. `letter`: the character after the backslash, already read.
  uint32_t escaped(char letter);
  uint32_t hexadecimal(size_t n_digits);
  void add_with_case(uint32_t first, uint32_t last, CharSet& out);

  PatternText& text_;
  bool ignores_case_ = false;
  uint32_t last_folded_ = 0;  // the previous character, if case is ignored; 0: none
};

class PatternCompiler {
 public:
  PatternCompiler(std::string_view expression, Pattern& out) : text_(expression), out_(out) {}
  PatternCompiler(const PatternCompiler&) = delete;
  PatternCompiler& operator=(const PatternCompiler&) = delete;
  // Returns the unsupported part, or nullopt on success.
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
  // Inserts an instruction before program[at] and adjusts jumps beyond it.
  void insert(size_t at, Pattern::Instruction instruction);
  // Appends instructions with their jumps shifted by `distance`.
  void copy(const Program& body, size_t distance);
  // True if the program can get from `begin` to `end` without consuming a character; then sets `boundary` if that
  // requires a word boundary.
  bool may_be_empty(size_t begin, size_t end, bool& boundary) const;
  size_t here() const { return out_.program_.size(); }

  PatternText text_;
  CharSetReader sets_{text_};
  Pattern& out_;
};

}  // namespace ibid
