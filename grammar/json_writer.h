// JsonWriter: makes expressions for the notation of JSON: values, strings, numbers, and the white space between them.
// Each rule is added once to the rules of a grammar under construction.
//
// There are two notations of strings. A plain string may contain every escape of JSON except lone surrogates. A
// canonical string escapes only the characters that must be escaped, each in one way. So a constraint on the characters
// of a canonical string (a pattern, excluded names) is a constraint on its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "grammar/compile_budget.h"
#include "grammar/grammar.h"
#include "grammar/grammar_rules.h"

namespace ibid {

// --- Numbers within bounds, as decimal texts. Their digits are compared with the digits of the bounds, so nothing is
// rounded. The texts have no exponent, no leading zeros and no "-0".

// Maximum digits before the point, unless a bound has more. With JsonFormat::strict the maximum is kMostWholeDigits:
// programs parse numbers as doubles, which can represent every number of this length. Otherwise it is kMostUsualDigits,
// also after the point: a model that does not end a number by itself would write digits until the end of its answer.
inline constexpr uint32_t kMostWholeDigits = 308;
inline constexpr uint32_t kMostUsualDigits = 18;

// A decimal number: digits before the point (at least "0", no leading zeros) and after it (no trailing zeros).
struct Decimal {
  bool negative = false;  // false for zero
  std::string whole = "0";
  std::string fraction;

  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};

// Returns an integer's exact decimal, or the shortest that parses to a double. REQUIRES: a number of parse_json().
Decimal decimal_of(const Json& number);
bool operator<(const Decimal& a, const Decimal& b);

struct NumberBounds {
  std::optional<Decimal> min, max;
  bool above_min = false, below_max = false;  // values equal to the bound are excluded too
  std::vector<Decimal> multiples;             // positive; values must be multiples of all of these
  std::vector<Decimal> excluded;              // values must differ from all of these
  bool integer = false;
  bool fraction = false;  // integers are excluded

  bool any() const { return min || max || fraction || !multiples.empty() || !excluded.empty(); }
  void raise_min(const Decimal& value, bool above);
  void lower_max(const Decimal& value, bool below);
  // Returns true if no number is between min and max. Other contradictions are not detected.
  bool clearly_empty() const;
  bool allows(const Decimal& value) const;
};

// Returns an expression for the texts of the numbers within the bounds. Errors: kLimitExceeded if the expression needs
// too many states; those of the budget.
Result<ExprId> number_range(const NumberBounds& bounds, bool strict, GrammarRules& rules, CompileBudget& budget);

// --- JsonWriter.

class JsonWriter {
 public:
  JsonWriter(GrammarRules& rules, const JsonFormat& format);

  GrammarRules& rules() const { return rules_; }
  ExprId space() const { return space_; }  // white space inside brackets and after commas
  ExprId colon() const { return colon_; }
  ExprId comma() const { return comma_; }  // a comma and the white space after it

  ExprId plain_char() const { return plain_char_; }
  ExprId plain_string() {
    return call_once("string", [&] { return quoted(rules_.repeat(plain_char_, 0, kUnbounded)); });
  }
  ExprId quoted(ExprId characters) { return rules_.sequence({quote_, characters, quote_}); }
  // Returns an expression, added to `rules`, for one character of the set in canonical notation.
  static ExprId canonical_char(const CodePointSet& set, GrammarRules& rules);

  ExprId number();
  ExprId integer();
  ExprId any_value();
  ExprId any_object();
  ExprId any_array();
  // Returns an expression for the texts of one value. is_integer: numbers are written without a fraction. REQUIRES: a
  // value from parse_json().
  ExprId literal(const Json& value, bool is_integer = false);

  // Returns a call of the rule with this name. The first call for a name makes the rule.
  template <typename Make>
  ExprId call_once(const std::string& name, const Make& make) {
    const auto [found, is_new] = once_.emplace(name, 0);
    if (is_new) {
      const RuleId rule = found->second = rules_.add_rule(name);
      rules_.define(rule, make());  // the rule may call itself, because JSON is recursive
    }
    return rules_.call(once_.at(name));
  }

 private:
  GrammarRules& rules_;
  const bool compact_;
  const uint32_t most_digits_;  // maximum number of digits before the point, and after it, of a number without bounds
  ExprId quote_, space_, colon_, comma_, plain_char_;
  std::map<std::string, RuleId> once_;
};

}  // namespace ibid
