// Texts that satisfy several regular grammars at once, or all of some and none of others: what a string must be that
// has a pattern, a format and a length, or the name of a property that is none of those declared.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "grammar/compile_budget.h"
#include "grammar/configurations.h"
#include "grammar/grammar_rules.h"

namespace ibid {

// A regular grammar that may be a part of several products: it is compiled once, and keeps what was found out about it.
// The budget must outlive it.
class RegularLanguage {
 public:
  // The texts of the first rule, which has finitely many configurations.
  // Errors: those of ByteAutomaton::compile(); kLimitExceeded, kCancelled.
  static Result<RegularLanguage> compile(const GrammarRules& grammar, CompileBudget& budget);

  Configurations& configs() { return *configs_; }
  // Takes what it has become of the budget. False: that is used up.
  bool account(CompileBudget& budget);

 private:
  RegularLanguage(ByteAutomaton automaton, CompileBudget& budget);

  std::unique_ptr<const ByteAutomaton> automaton_;  // where it is, also when this is moved
  std::unique_ptr<Configurations> configs_;
  HeldBytes held_;
  uint64_t n_accounted_ = 0;
};

struct RegularPart {
  RegularLanguage* language;
  bool excluded = false;  // texts must not be of this grammar
};

struct RegularProduct {
  ExprGraph graph;      // edges are byte ranges of the rules that were given
  bool empty = true;    // no text satisfies them
};

// REQUIRES: the first part is not excluded. At most max_states states.
// Errors: kLimitExceeded, kCancelled.
Result<RegularProduct> multiply_regular(const std::vector<RegularPart>& parts, size_t max_states, GrammarRules& rules,
                                        CompileBudget& budget);
// Whether any text satisfies them.
Result<bool> share_a_text(const std::vector<RegularPart>& parts, size_t max_states, CompileBudget& budget);

}  // namespace ibid
