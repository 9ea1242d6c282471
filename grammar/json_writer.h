// JsonWriter: how JSON texts are written, as expressions: values, strings, numbers, and the white space between them.
// It writes into the rules of a grammar that is being compiled, each thing once.
//
// There are two spellings of strings. A plain one may have every escape of JSON but lone surrogates. A canonical one
// escapes only the characters that must be escaped, in one way: so a demand on its characters (a pattern, a list of
// names that it must differ from) is a demand on its bytes.
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

// --- Numbers within bounds, as the texts of decimals: digits are compared with those of the bounds, so nothing is
// rounded. Texts have no exponent, no leading zeros and no "-0".

// In front of the point: a double holds every number of so many digits, and programs read numbers as doubles.
inline constexpr uint32_t kMostWholeDigits = 308;

// A decimal: digits in front of the point ("0" at least, no zeros in front) and behind it (no zeros at the end).
struct Decimal {
  bool negative = false;  // never with zero
  std::string whole = "0";
  std::string fraction;

  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};

// REQUIRES: a number of parse_json(). A double becomes the shortest decimal that is read as it.
Decimal decimal_of(const Json& number);
bool operator<(const Decimal& a, const Decimal& b);

struct NumberBounds {
  std::optional<Decimal> min, max;
  bool above_min = false, below_max = false;  // the bound itself is outside
  std::vector<Decimal> multiples;             // positive; of each of these
  bool integer = false;

  bool any() const { return min || max || !multiples.empty(); }
  void raise_min(const Decimal& value, bool above);
  void lower_max(const Decimal& value, bool below);
  // No number satisfies min and max; further ones may be empty.
  bool clearly_empty() const;
  bool allows(const Decimal& value) const;
};

// The texts of the numbers within. Errors: kLimitExceeded when it takes too many states; those of the budget.
Result<ExprId> number_range(const NumberBounds& bounds, GrammarRules& rules, CompileBudget& budget);

// --- JsonWriter.

class JsonWriter {
 public:
  JsonWriter(GrammarRules& rules, const JsonFormat& format);

  GrammarRules& rules() const { return rules_; }
  ExprId space() const { return space_; }  // inside of brackets, at either end, and behind a comma
  ExprId colon() const { return colon_; }
  ExprId comma() const { return comma_; }  // and the space behind it

  ExprId plain_char() const { return plain_char_; }
  ExprId plain_string() {
    return call_once("string", [&] { return quoted(rules_.repeat(plain_char_, 0, kUnbounded)); });
  }
  ExprId quoted(ExprId characters) { return rules_.sequence({quote_, characters, quote_}); }
  // A character of the set, in canonical spelling, in any rules.
  static ExprId canonical_char(const CodePointSet& set, GrammarRules& rules);

  ExprId number();
  ExprId integer();
  ExprId any_value();
  ExprId any_object();
  ExprId any_array();
  // The texts of one value. is_integer: a number is written without a fraction. REQUIRES: a value of parse_json().
  ExprId literal(const Json& value, bool is_integer = false);

  // A rule that is made when it is first asked for by this name.
  template <typename Make>
  ExprId call_once(const std::string& name, const Make& make) {
    const auto [found, is_new] = once_.emplace(name, 0);
    if (is_new) {
      const RuleId rule = found->second = rules_.add_rule(name);
      rules_.define(rule, make());  // may ask for itself: JSON is recursive
    }
    return rules_.call(once_.at(name));
  }

 private:
  GrammarRules& rules_;
  const bool compact_;
  ExprId quote_, space_, colon_, comma_, plain_char_;
  std::map<std::string, RuleId> once_;
};

}  // namespace ibid
