// The reference for ByteAutomaton, Configurations and TokenMasks: a set of unshared stacks of expressions still to be
// matched; a token is allowed if its bytes can be read one by one. Memory is unbounded; REQUIRES: no left recursion.
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar_rules.h"

namespace ibid {

class ReferenceMatcher {
 public:
  explicit ReferenceMatcher(const GrammarRules& rules);

  // Reads a byte. Returns false if no text continues like that.
  bool read(uint8_t byte);
  bool read(std::string_view bytes);
  // The text read so far is complete.
  bool may_end() const { return may_end_; }
  size_t n_stacks() const { return stacks_.size(); }

 private:
  // An expression, and how much of it was matched: bytes of a text, parts of a sequence, repetitions, the state of a
  // graph; for a character, its first bytes (0: none; else 1 and the bytes).
  struct Frame {
    ExprId expr;
    uint32_t matched;
    auto operator<=>(const Frame&) const = default;
  };
  using Stack = std::vector<Frame>;

  // Expands `stack` into all stacks that read a byte next.
  void open(const Stack& stack);
  void open_part(const Stack& rest, ExprId part);
  std::vector<Frame> after(Frame frame, uint8_t byte, bool& done) const;
  const std::vector<std::string>& spellings(const Expr& expr) const;

  const GrammarRules& rules_;
  std::set<Stack> stacks_;  // the last frame reads a byte
  std::set<Stack> met_;
  bool may_end_ = false;
  mutable std::vector<std::vector<std::string>> spellings_;  // by set
};

}  // namespace ibid
