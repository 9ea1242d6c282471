// Regular expressions as JSON Schema has them (ECMA-262 with the flag u), as far as they are regular: classes, groups,
// alternatives, counted repetitions; anchors where they bind a whole alternative. Back-references, looking around, word
// boundaries and flags are errors that name them.
//
// A lazy quantifier has the texts of a greedy one. \d, \w, \s are those of ECMA-262, \p{..} knows general categories.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "grammar/code_point_set.h"
#include "grammar/grammar_rules.h"

namespace ibid {

// The texts of a character of a set: the character itself, or how it is written in a JSON string.
using CharWriter = std::function<ExprId(const CodePointSet&)>;

enum class RegexMatch {
  kWhole,   // a text matches from its beginning to its end
  kSearch,  // anywhere within it, but for anchors
};

// The texts that match `pattern`. O(pattern).
// Errors: kUnsupported, kInvalidArgument, kLimitExceeded, with the offset of a byte.
Result<ExprId> parse_regex(std::string_view pattern, RegexMatch match, const CharWriter& write, GrammarRules& rules);

}  // namespace ibid
