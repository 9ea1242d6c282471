// JSON files of a checkpoint (config.json and its kin), as Python's json module writes them: JSON, and behind it the
// words Infinity, -Infinity and NaN for floats that JSON has no numbers for. Recent versions of transformers write
// {"__float__": "Infinity"} instead; whichever a file has, the DOM has this object, so that it can be printed as JSON
// and no reader takes it for a number unasked. Messages of users and tokenizer.json are plain JSON: parse_json().
//
// Source: the documentation of Python's json.dump (allow_nan), and PretrainedConfig of transformers (__float__).
// Pure functions of their arguments.
#pragma once

#include <optional>
#include <string_view>

#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

// How many of the words one file may have: each grows to an object. A configuration has a few.
inline constexpr size_t kMaxNonFiniteWords = 1000;

// Parses `text`; the words count where a value stands in an array or an object, whole and with the sign at the word.
// Errors: those of parse_json(), with offsets in `text`; kLimitExceeded for more than kMaxNonFiniteWords words.
Result<Json> parse_model_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// The float that an object with "__float__" alone stands for; nullopt for everything else.
std::optional<double> non_finite(const Json& value);

}  // namespace ibid
