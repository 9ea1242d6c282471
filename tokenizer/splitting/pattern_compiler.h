// PatternCompiler: compiles an expression into the program of a Pattern, or says which part of it is not known.
// Used once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/splitting/char_set_reader.h"
#include "tokenizer/splitting/pattern.h"
#include "tokenizer/splitting/pattern_text.h"

namespace ibid {

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
