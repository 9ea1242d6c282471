// CallRules: writes calls of tools (DemandedCalls) into the rules of a grammar. Not thread-safe; for the files of this
// folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/grammar_parts.h"

namespace ibid {

class CallRules {
 public:
  // `rules` must outlive it, and have its first rule.
  explicit CallRules(GrammarRules& rules) : rules_(rules) {}

  ExprId call(const DemandedCalls::Call& call);
  // Error: kLimitExceeded when a call had words that are too long.
  const Status& status() const { return status_; }
  GrammarRules& operator*() { return rules_; }
  GrammarRules* operator->() { return &rules_; }

 private:
  RuleId rule_of(const Grammar& grammar);

  GrammarRules& rules_;
  std::map<const Grammar::Parts*, RuleId> known_;
  Status status_;
};

// Any text that ends with the first `words` in it. Spaces at the words' beginning are a part of them, and without these
// they do not stand in the text either. REQUIRES: check_words().
ExprId text_up_to(const std::string& words, GrammarRules& rules);

// Error: kLimitExceeded for words that are too long together.
Status check_words(const std::vector<std::string>& words);

}  // namespace ibid
