// JSON files of a checkpoint (config.json and similar), as Python's json module writes them: JSON plus the words
// Infinity, -Infinity and NaN for floats that JSON cannot represent. Recent versions of transformers write
// {"__float__": "Infinity"} instead. parse_model_json() turns the words into such an object too, so that the DOM can be
// printed as JSON and no reader takes the value for a number. Messages of users and tokenizer.json are plain JSON,
// parsed by parse_json().
//
// Source: the documentation of Python's json.dump (allow_nan), and PretrainedConfig of transformers (__float__). Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

// Maximum number of the words Infinity, -Infinity and NaN in a file: each becomes an object, which needs more memory. A
// configuration has a few.
inline constexpr size_t kMaxNonFiniteWords = 1000;

// Parses `text`. Infinity, -Infinity and NaN are recognised only as a whole value in an array or object. Errors: those
// of parse_json(), with offsets in `text`; kLimitExceeded for more than kMaxNonFiniteWords words.
Result<Json> parse_model_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// Returns the float of an object whose only key is "__float__"; nullopt for any other value.
std::optional<double> non_finite(const Json& value);

// Typed reads from config.json, with the rules of ModelFile's getters: a missing key and null are nullopt, another type
// is kBadType, a number that does not fit is kBadNumber. Keys may be dotted paths into nested objects
// ("rope_scaling.factor"); a key that contains the dot itself is preferred. Floats may be infinite or NaN: the caller
// checks the range. `root` (if null, every key is missing) and `file`, the name for messages, must outlive the object.
class JsonValues {
 public:
  JsonValues(const Json* root, std::string_view file) : root_(root), file_(file) {}

  // nullptr if the key is missing or null.
  const Json* find(std::string_view key) const;

  // Accepts a float with an integral value, such as 4096.0; 1.5 is kBadNumber.
  Result<std::optional<int64_t>> get_int(std::string_view key) const;
  Result<std::optional<double>> get_float(std::string_view key) const;
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> get_string(std::string_view key) const;
  Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const;
  Result<std::optional<std::vector<double>>> get_floats(std::string_view key) const;

 private:
  const Json* root_;
  std::string_view file_;
};

}  // namespace ibid
