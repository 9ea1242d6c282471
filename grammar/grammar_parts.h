// What a Grammar consists of, for the files of this folder.
#pragma once

#include <utility>

#include "grammar/byte_automaton.h"
#include "grammar/grammar.h"
#include "grammar/grammar_rules.h"

namespace ibid {

struct Grammar::Parts {
  GrammarRules rules;
  ByteAutomaton automaton;
  bool free_text = false;  // special tokens may stand in the first rule and its repetitions, not in rules that it calls
};

// Compiles what a compiler of a notation has written. `what` names the source in messages.
// Errors: kLimitExceeded, kUnsupported (left recursion), kInvalidArgument when no text is one of the grammar.
Result<Grammar> make_grammar(GrammarRules rules, std::string_view what, bool free_text = false);

}  // namespace ibid
