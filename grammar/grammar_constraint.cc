#include "grammar/grammar_constraint.h"

namespace ibid {

std::shared_ptr<const TokenConstraint> make_constraint(const Grammar& grammar,
                                                       std::shared_ptr<const TokenTexts> vocabulary,
                                                       const ConstraintLimits& limits) {
  return std::make_shared<GrammarConstraint>(
      std::make_shared<GrammarMatcher>(grammar.shared_parts(), std::move(vocabulary), limits.max_bytes));
}

}  // namespace ibid
