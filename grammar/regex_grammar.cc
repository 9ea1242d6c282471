#include "grammar/grammar_parts.h"
#include "grammar/regex_parser.h"

namespace ibid {

Result<Grammar> compile_regex(std::string_view pattern) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("regex");
  const CharWriter write = [&](const CodePointSet& set) { return rules.chars(set); };
  Result<ExprId> expr = parse_regex(pattern, RegexMatch::kWhole, write, rules);
  if (!expr.ok()) return {expr.status().code(), "regex: " + expr.status().message()};
  rules.define(root, *expr);
  return make_grammar(std::move(rules), "regex");
}

}  // namespace ibid
