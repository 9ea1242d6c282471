// Checks a value against a JSON schema, for calls that are recognised by their arguments alone. A pure function that
// accepts any schema; its work is limited.
#pragma once

#include <string_view>

#include "base/json_fwd.h"

namespace ibid {

// Returns the target of a reference "#/a/b"; null if it does not exist or is in another document.
const Json* referred_schema(const Json& root, std::string_view reference);

// True if the value satisfies the schema, whose references are within `root`. An object schema that lists properties
// and does not mention others has no others, as in grammars of calls. Evaluates types, enum, const, references, anyOf,
// oneOf, allOf, not, members, items, and limits of numbers, lengths and counts; other keywords are ignored. False if
// the schema is too deep or too large to be evaluated.
bool schema_accepts(const Json& schema, const Json& root, const Json& value);

}  // namespace ibid
