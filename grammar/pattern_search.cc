#include "grammar/pattern_search.h"

#include <utility>

#include "grammar/configurations.h"
#include "grammar/regex_parser.h"

namespace ibid {

struct PatternSearch::Compiled {
  Compiled(ByteAutomaton its, CompileBudget& budget)
      : automaton(std::move(its)), configs(automaton, {.max_bytes = 8u << 20}), held(budget) {}

  const ByteAutomaton automaton;
  Configurations configs;
  HeldBytes held;
};

PatternSearch::PatternSearch(CompileBudget& budget) : budget_(&budget) {}
PatternSearch::PatternSearch(PatternSearch&&) noexcept = default;
PatternSearch::~PatternSearch() = default;

Result<std::unique_ptr<PatternSearch::Compiled>> PatternSearch::compile(std::string_view pattern) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("pattern");
  const CharWriter write = [&](const CodePointSet& set) { return rules.chars(set); };
  TRY_ASSIGN(const ExprId expr, parse_regex(pattern, RegexMatch::kSearch, write, rules));
  rules.define(root, expr);
  TRY_ASSIGN(ByteAutomaton automaton, ByteAutomaton::compile(rules));
  budget_->spend(pattern.size() + automaton.n_states() + automaton.n_edges());
  return std::make_unique<Compiled>(std::move(automaton), *budget_);
}

Result<bool> PatternSearch::finds(std::string_view pattern, std::string_view text) {
  auto known = known_.find(pattern);
  if (known == known_.end()) known = known_.emplace(std::string(pattern), compile(pattern)).first;
  TRY(known->second.status());
  Compiled& compiled = **known->second;
  Configurations& configs = compiled.configs;
  const uint64_t before = configs.n_work();
  bool found = false;
  for (size_t n_tried = 0;; ++n_tried) {
    configs.begin_work();
    ConfigId config = configs.start();
    for (const char c : text) config = configs.step(config, static_cast<uint8_t>(c));
    found = configs.may_end(config);
    if (configs.trouble() == Configurations::Trouble::kNone) break;
    const bool memory = configs.trouble() == Configurations::Trouble::kMemory;
    configs.clear();
    if (memory && n_tried == 0) continue;
    return {ErrorCode::kLimitExceeded, "the pattern takes too much time or memory to be searched for"};
  }
  budget_->spend(text.size() + (configs.n_work() - before) * CompileBudget::kItemCost);
  compiled.held.set(compiled.automaton.n_bytes() + configs.n_bytes());
  TRY(budget_->status("the pattern"));
  return found;
}

}  // namespace ibid
