// Numbers within bounds, as the texts of decimals: digits are compared with those of the bounds, so nothing is rounded.
// Texts have no exponent, no leading zeros and no "-0".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "grammar/compile_budget.h"
#include "grammar/grammar_rules.h"

namespace ibid {

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

}  // namespace ibid
