#include "grammar/grammar.h"

#include "grammar/byte_automaton.h"
#include "grammar/configurations.h"
#include "grammar/regex_parser.h"

namespace ibid {

Result<Grammar> make_grammar(GrammarRules rules, std::string_view what, bool free_text) {
  Result<ByteAutomaton> automaton = ByteAutomaton::compile(rules);
  if (!automaton.ok()) {
    return {automaton.status().code(), std::string(what) + ": " + automaton.status().message()};
  }
  if (automaton->spells_nothing()) {
    return {ErrorCode::kInvalidArgument, std::string(what) + ": no text satisfies it"};
  }
  auto parts = std::make_shared<Grammar::Parts>(
      Grammar::Parts{std::move(rules), std::move(automaton).value(), free_text});
  return Grammar(std::move(parts));
}

Result<Grammar> compile_choices(const std::vector<std::string>& choices) {
  if (choices.empty()) return {ErrorCode::kInvalidArgument, "choices: none are given"};
  GrammarRules rules;
  const RuleId root = rules.add_rule("choices");
  std::vector<ExprId> texts;
  for (const std::string& choice : choices) texts.push_back(rules.bytes(choice));
  rules.define(root, rules.choice(texts));
  return make_grammar(std::move(rules), "choices");
}

Result<bool> grammar_accepts(const Grammar& grammar, std::string_view text) {
  Configurations configs(grammar.parts().automaton, Configurations::Limits{});
  configs.begin_work();
  ConfigId config = configs.start();
  for (const char c : text) {
    config = configs.step(config, static_cast<uint8_t>(c));
    if (configs.trouble() != Configurations::Trouble::kNone) {
      return {ErrorCode::kLimitExceeded, "the text takes too much time or memory to be compared with the grammar"};
    }
    if (config == Configurations::kDead) return false;
  }
  return configs.may_end(config);
}

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
