// PatternCompiler: compiles an expression into the program of a Pattern, or says which part of it is not known.
// Used once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/splitting/pattern.h"

namespace ibid {

class PatternCompiler {
 public:
  PatternCompiler(std::string_view expression, Pattern& out) : rest_(expression), out_(out) {}
  // The part that is not known; nothing when all of it is.
  std::optional<std::string> compile();

 private:
  using Op = Pattern::Op;
  using Program = std::vector<Pattern::Instruction>;
  static constexpr size_t kMaxDepth = 200;  // of groups, alternatives and sets

  void alternatives();
  void sequence();
  void item();
  void group();
  void quantify(size_t begin);
  void repeat_group(size_t begin, uint32_t min, uint32_t max);
  bool bounds(uint32_t& min, uint32_t& max);
  CharSet set_item();
  CharSet bracket();
  void add_range(CharSet& out);
  bool add_class(char letter, CharSet& out);
  void add_property(bool lacks, CharSet& out);
  // The character that an escape stands for, if it stands for one; `letter` was read.
  uint32_t escaped(char letter);
  uint32_t hexadecimal(size_t n_digits);
  void add_with_case(uint32_t first, uint32_t last, CharSet& out);
  uint32_t character();
  char take_letter();
  void emit(Pattern::Instruction instruction);
  void emit_set(CharSet set);
  bool take(std::string_view text);
  // Makes room for an instruction in front of program[at]; jumps behind it move along.
  void insert(size_t at, Pattern::Instruction instruction);
  // Instructions with their jumps moved by `distance`.
  void copy(const Program& body, size_t distance);
  // Whether the program can get from `begin` to `end` without consuming a character; `boundary`: by way of a word's
  // border.
  bool may_be_empty(size_t begin, size_t end, bool& boundary) const;
  size_t here() const { return out_.program_.size(); }
  // Only the first call counts. It drops the rest of the expression, which ends every loop here.
  void fail(std::string_view what);

  std::string_view rest_;
  Pattern& out_;
  bool ignores_case_ = false;
  uint32_t last_folded_ = 0;  // the character before, where letter case does not count
  size_t depth_ = 0;
  std::optional<std::string> failure_;
};

}  // namespace ibid
