// PatternCompiler: reads an expression into the program of a Pattern. Used once, by its constructor.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "tokenizer/pattern.h"

namespace ibid {

class PatternCompiler {
 public:
  PatternCompiler(std::string_view expression, Pattern& out) : rest_(expression), out_(out) {}
  void compile();

 private:
  using Op = Pattern::Op;

  void alternatives();
  void sequence();
  void item();
  void group();
  void quantify(size_t begin);
  CharSet set_item();
  CharSet bracket();
  void add_escape(char letter, CharSet& out);
  void add_property(CharSet& out);
  uint32_t character();
  void emit_set(CharSet set);
  bool take(std::string_view text);
  // Makes room for an instruction in front of program[at]; jumps behind it move along.
  void insert(size_t at, Pattern::Instruction instruction);
  size_t here() const { return out_.program_.size(); }

  std::string_view rest_;
  Pattern& out_;
  bool ignores_case_ = false;
};

}  // namespace ibid
