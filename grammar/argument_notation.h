// Arguments of calls in notations other than a JSON object, as pieces of a grammar of calls (DemandedCalls).
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "base/result.h"
#include "grammar/grammar.h"

namespace ibid {

struct ArgumentNotation {
  enum class Form {
    kMarked,    // before_key KEY before_value VALUE after_value, for each: strings as they are, others as JSON
    kBare,      // {key:value,...}: strings between `quote`, in which nothing is escaped
    kKeywords,  // (key=value, ...): values as JSON
  };
  Form form = Form::kMarked;
  std::string before_key = {}, after_value = {};
  std::string before_value = {};        // of a string
  std::string before_other_value = {};  // of anything else; where it is the same, a value that may be a string is one
  std::string quote = {};
};

// What the schema of an object accepts: required arguments, and others that may be left out, in the order in which they
// are declared. Where none are declared and others are allowed, any may come (kKeywords: none).
// Errors: those of compile_json_schema(); kUnsupported also for what this notation cannot be held to: choices of whole
// objects, combined demands on a string that is written as it is, counts of items and values that are nested too deeply
// in kBare.
Result<DemandedCalls::Call> compile_arguments(const Json& schema, const ArgumentNotation& notation,
                                              CompileBudget* budget = nullptr);

}  // namespace ibid
