// Texts that satisfy several regular grammars at once, or all of some and none of others: what a string must be that
// has a pattern, a format and a length, or the name of a property that is none of those declared.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "sampling/grammar/grammar_rules.h"

namespace ibid {

struct RegularPart {
  const GrammarRules* grammar;  // its first rule; regular: it has finitely many configurations
  bool excluded = false;        // texts must not be of this grammar
};

struct RegularProduct {
  ExprGraph graph;      // edges are byte ranges of the rules that were given
  bool empty = true;    // no text satisfies them
};

// REQUIRES: the first part is not excluded. At most max_states states.
// Errors: kLimitExceeded; those of ByteAutomaton::compile().
Result<RegularProduct> multiply_regular(const std::vector<RegularPart>& parts, size_t max_states, GrammarRules& rules);

}  // namespace ibid
