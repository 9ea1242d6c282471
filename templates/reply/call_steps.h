// CallSteps: what a CallSyntax says, as the steps that a reader takes one after the other. Immutable plain data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "templates/reply/reply_format.h"

namespace ibid {

struct CallStep {
  enum class Kind { kWord, kName, kId, kIndex, kArguments, kEnvelope };
  Kind kind = Kind::kWord;
  std::string word = {};   // kWord: may have spaces in front of it
  // kWord: where it is not there, this many steps are left out with it; 0: it has to be there.
  size_t n_optional = 0;
};

struct CallSteps {
  std::vector<CallStep> steps;
  size_t n_opening = 0;  // the first steps, which open the section of calls; later calls begin behind them
  std::vector<std::string> separator, section_end;  // words
  CallSyntax syntax;
  // ParameterSyntax, as words.
  std::vector<std::string> before_key, before_value, before_other_value, after_value;
  bool names_in_ids = false;      // the form has no name of its own: it is a part of the id ("functions.NAME:0")
  std::string id_begin, id_middle;  // of an id that is made of a name and an index; empty: there is none
};

CallSteps make_call_steps(const CallSyntax& syntax);

// The words with which calls begin, for CallSyntax::triggers.
std::vector<std::string> call_triggers(const CallSyntax& syntax);

}  // namespace ibid
