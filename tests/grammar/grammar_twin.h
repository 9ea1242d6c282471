// The reference for ByteAutomaton, Configurations and TokenMasks. Its state is a set of stacks, not shared, of
// expressions that are still to be matched. A token is allowed if its bytes can be read one by one. Memory is
// unbounded. REQUIRES: no left recursion.
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

  // Reads a byte. Returns false if no text continues with it.
  bool read(uint8_t byte);
  bool read(std::string_view bytes);
  // True if the text read so far is complete.
  bool may_end() const { return may_end_; }
  size_t n_stacks() const { return stacks_.size(); }

 private:
  // An expression, and how much of it was matched: for a text its bytes, for a sequence its parts, for a repetition its
  // count, for a graph its state; for a character its first bytes (0: none; else 1 followed by the bytes).
  struct Frame {
    ExprId expr;
    uint32_t matched;
    auto operator<=>(const Frame&) const = default;
  };
  using Stack = std::vector<Frame>;

  // Replaces `stack` by all stacks that can result and whose last frame reads a byte.
  void open(const Stack& stack);
  void open_part(const Stack& rest, ExprId part);
  std::vector<Frame> after(Frame frame, uint8_t byte, bool& done) const;
  const std::vector<std::string>& spellings(const Expr& expr) const;

  const GrammarRules& rules_;
  std::set<Stack> stacks_;  // in each stack the last frame reads a byte
  std::set<Stack> met_;
  bool may_end_ = false;
  mutable std::vector<std::vector<std::string>> spellings_;  // indexed by set: the spellings of its characters
};

}  // namespace ibid
