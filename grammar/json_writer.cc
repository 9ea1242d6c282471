#include "grammar/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include "base/json_limits.h"
#include "base/utf8.h"
#include "grammar/byte_automaton.h"

namespace ibid {
namespace {

constexpr size_t kMostStates = 20'000;
constexpr uint64_t kMostMultiple = 1u << 20;

Decimal plain_decimal(bool negative, std::string whole, std::string fraction) {
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (whole.empty()) whole = "0";
  Decimal out{negative, std::move(whole), std::move(fraction)};
  if (out.is_zero()) out.negative = false;
  return out;
}

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int order = a.whole.compare(b.whole); order != 0) return order;
  // Fractions have no trailing zeros, so if one is the beginning of the other, the shorter one is smaller.
  return a.fraction.compare(b.fraction);
}

// Comparison of the digits read so far with a bound. n_whole, n_fraction: digits read before and after the point
// (n_whole is at most one more than the bound has). order: -1: below the bound, 0: equal so far, 1: above.
struct Comparison {
  size_t n_whole = 0, n_fraction = 0;
  int order = 0;
  auto operator<=>(const Comparison&) const = default;

  void read_whole(char digit, const std::string& bound) {
    if (order == 0 && n_whole < bound.size()) order = (digit > bound[n_whole]) - (digit < bound[n_whole]);
    n_whole = std::min(n_whole + 1, bound.size() + 1);
  }
  void end_whole(const std::string& bound) {
    if (n_whole != bound.size()) order = n_whole < bound.size() ? -1 : 1;
    n_whole = 0;  // not used any more; so states that differ only in n_whole become equal
  }
  void read_fraction(char digit, const std::string& bound) {
    const char other = n_fraction < bound.size() ? bound[n_fraction] : '0';
    if (order == 0) order = (digit > other) - (digit < other);
    n_fraction = order == 0 ? std::min(n_fraction + 1, bound.size()) : 0;
  }
  int end(const std::string& fraction) const { return order == 0 && n_fraction < fraction.size() ? -1 : order; }
};

// Remainder of the digits read so far on division by a multiple, in units of 10^-scale.
struct Remainder {
  uint64_t value = 0;
  size_t n_fraction = 0;
  auto operator<=>(const Remainder&) const = default;
};
struct Multiple {
  uint64_t step;
  size_t scale;
};

enum class Phase { kStart, kZero, kWhole, kPoint, kFraction };

struct DigitState {
  Phase phase = Phase::kStart;
  std::array<Comparison, 2> bounds;
  std::vector<Remainder> remainders;
  bool is_whole = true;  // all digits after the point are 0; computed only if NumberBounds::fraction is set
  auto operator<=>(const DigitState&) const = default;
};

// Builds the texts of non-negative decimals between two bounds.
class MagnitudeWalk {
 public:
  struct Bound {
    Decimal value;
    bool exclusive;
  };
  MagnitudeWalk(const Bound* least, const Bound* most, const std::vector<Multiple>& multiples,
                const NumberBounds& bounds, bool strict)
      : limits_{least, most},
        multiples_(multiples),
        integer_(bounds.integer),
        fraction_(bounds.fraction),
        strict_(strict) {}

  Result<ExprId> walk(GrammarRules& rules, CompileBudget& budget) {
    DigitState start;
    start.remainders.resize(multiples_.size());
    number_of(start);
    for (uint32_t at = 0; at < states_.size(); ++at) {
      if (states_.size() > kMostStates) {
        return {ErrorCode::kLimitExceeded, "the numbers need more than " + std::to_string(kMostStates) + " states"};
      }
      if (!budget.spend(20 + 10 * multiples_.size())) return budget.status("the numbers");
      const DigitState state = states_[at];
      if (is_final(state)) graph_.finals.push_back(at);
      add_edges(at, state, rules);
    }
    graph_.n_states = static_cast<uint32_t>(states_.size());
    bound_loops(rules);
    return rules.graph(std::move(graph_));
  }

 private:
  uint32_t number_of(const DigitState& state) {
    const auto [found, is_new] = numbers_.emplace(state, static_cast<uint32_t>(states_.size()));
    if (is_new) states_.push_back(state);
    return found->second;
  }

  void add_edges(uint32_t at, const DigitState& state, GrammarRules& rules) {
    std::map<uint32_t, CodePointSet> targets;
    for (char digit = '0'; digit <= '9'; ++digit) {
      DigitState next = state;
      if (read_digit(digit, next)) targets[number_of(next)].add(static_cast<uint8_t>(digit));
    }
    if (!integer_ && (state.phase == Phase::kZero || state.phase == Phase::kWhole)) {
      DigitState next = state;
      end_whole(next);
      next.phase = Phase::kPoint;
      targets[number_of(next)].add('.');
    }
    for (const auto& [target, set] : targets) {
      if (target == at && (state.phase == Phase::kWhole || (!strict_ && state.phase == Phase::kFraction))) {
        loops_.emplace_back(at, rules.chars(set));
      } else {
        graph_.add_edge(at, rules.chars(set), target);
      }
    }
  }

  // Limits the number of digits: the edge of a state to itself becomes a bounded repetition that leads to a new state.
  void bound_loops(GrammarRules& rules) {
    const size_t limit = strict_ ? kMostWholeDigits : kMostUsualDigits;
    size_t n_whole = 1, n_fraction = 1;
    for (const Bound* bound : limits_) {
      if (bound == nullptr) continue;
      n_whole = std::max(n_whole, bound->value.whole.size() + 1);
      n_fraction = std::max(n_fraction, bound->value.fraction.size() + 1);
    }
    for (const auto& [at, digits] : loops_) {
      const size_t n_read = states_[at].phase == Phase::kWhole ? n_whole : n_fraction;
      const auto most = static_cast<uint32_t>(limit - std::min(n_read, limit));
      const uint32_t after = graph_.add_state();
      for (ExprGraph::Edge& edge : graph_.edges) {
        if (edge.from == at) edge.from = after;
      }
      std::ranges::replace(graph_.finals, at, after);
      graph_.add_edge(at, rules.repeat(digits, 0, most), after);
    }
  }

  bool read_digit(char digit, DigitState& state) const {
    if (state.phase == Phase::kZero) return false;
    const bool fraction = state.phase == Phase::kPoint || state.phase == Phase::kFraction;
    for (size_t i = 0; i < 2; ++i) {
      if (limits_[i] == nullptr) continue;
      const Decimal& bound = limits_[i]->value;
      fraction ? state.bounds[i].read_fraction(digit, bound.fraction) : state.bounds[i].read_whole(digit, bound.whole);
    }
    for (size_t i = 0; i < multiples_.size(); ++i) {
      Remainder& rest = state.remainders[i];
      if (fraction && rest.n_fraction == multiples_[i].scale) {
        if (digit != '0') return false;
        continue;
      }
      rest.value = (rest.value * 10 + static_cast<uint64_t>(digit - '0')) % multiples_[i].step;
      if (fraction) ++rest.n_fraction;
    }
    if (fraction) {
      state.phase = Phase::kFraction;
      state.is_whole &= !fraction_ || digit == '0';
    } else {
      state.phase = state.phase == Phase::kStart && digit == '0' ? Phase::kZero : Phase::kWhole;
    }
    return true;
  }

  void end_whole(DigitState& state) const {
    for (size_t i = 0; i < 2; ++i) {
      if (limits_[i] != nullptr) state.bounds[i].end_whole(limits_[i]->value.whole);
    }
  }

  bool is_final(DigitState state) const {
    if (state.phase == Phase::kStart || state.phase == Phase::kPoint || (fraction_ && state.is_whole)) return false;
    if (state.phase != Phase::kFraction) end_whole(state);
    for (size_t i = 0; i < 2; ++i) {
      if (limits_[i] == nullptr) continue;
      const int order = state.bounds[i].end(limits_[i]->value.fraction);
      if (order == 0 ? limits_[i]->exclusive : (order < 0) == (i == 0)) return false;
    }
    for (size_t i = 0; i < multiples_.size(); ++i) {
      uint64_t rest = state.remainders[i].value;
      for (size_t n = state.remainders[i].n_fraction; n < multiples_[i].scale; ++n) {
        rest = rest * 10 % multiples_[i].step;
      }
      if (rest != 0) return false;
    }
    return true;
  }

  const std::array<const Bound*, 2> limits_;
  const std::vector<Multiple>& multiples_;
  const bool integer_, fraction_, strict_;
  std::map<DigitState, uint32_t> numbers_;
  std::vector<DigitState> states_;
  ExprGraph graph_;
  std::vector<std::pair<uint32_t, ExprId>> loops_;
};

Result<std::vector<Multiple>> multiples_of(const NumberBounds& bounds) {
  std::vector<Multiple> out;
  for (const Decimal& step : bounds.multiples) {
    const std::string digits = step.whole + step.fraction;
    uint64_t value = 0;
    for (const char c : digits) value = std::min(value * 10 + static_cast<uint64_t>(c - '0'), kMostMultiple + 1);
    if (value > kMostMultiple) {
      return {ErrorCode::kLimitExceeded, "multipleOf " + step.whole + "." + step.fraction + ": its digits exceed " +
                                             std::to_string(kMostMultiple)};
    }
    out.push_back({value, step.fraction.size()});
  }
  return out;
}

}  // namespace

Decimal decimal_of(const Json& number) {
  std::string text = json_to_string(number);
  if (number.is_number_float()) {
    std::array<char, 64> buffer;
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number.get<double>(),
                                   std::chars_format::scientific);
    text.assign(buffer.data(), end.ptr);
  }
  const bool negative = text.starts_with('-');
  if (negative) text.erase(0, 1);
  int exponent = 0;
  if (const size_t e = text.find('e'); e != text.npos) {
    const size_t sign = text[e + 1] == '+' ? 2 : 1;
    std::from_chars(text.data() + e + sign, text.data() + text.size(), exponent);
    text.resize(e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string whole = text.substr(0, point), fraction = point < text.size() ? text.substr(point + 1) : "";
  if (exponent >= 0) {
    fraction.resize(std::max(fraction.size(), static_cast<size_t>(exponent)), '0');
    whole += fraction.substr(0, static_cast<size_t>(exponent));
    fraction.erase(0, static_cast<size_t>(exponent));
  } else {
    whole.insert(0, static_cast<size_t>(-exponent), '0');
    fraction.insert(0, whole.substr(whole.size() - static_cast<size_t>(-exponent)));
    whole.resize(whole.size() - static_cast<size_t>(-exponent));
  }
  return plain_decimal(negative, std::move(whole), std::move(fraction));
}

bool operator<(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative;
  return (a.negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b)) < 0;
}

void NumberBounds::raise_min(const Decimal& value, bool above) {
  if (min && value < *min) return;
  above_min = above || (min && *min == value && above_min);
  min = value;
}

void NumberBounds::lower_max(const Decimal& value, bool below) {
  if (max && *max < value) return;
  below_max = below || (max && *max == value && below_max);
  max = value;
}

bool NumberBounds::clearly_empty() const {
  return min && max && (*max < *min || (*max == *min && (above_min || below_max)));
}

bool NumberBounds::allows(const Decimal& value) const {
  if (value.fraction.empty() ? fraction : integer) return false;
  if (std::ranges::find(excluded, value) != excluded.end()) return false;
  if (min && (value < *min || (above_min && value == *min))) return false;
  if (max && (*max < value || (below_max && value == *max))) return false;
  const auto steps = multiples_of(*this);
  if (!steps.ok()) return false;
  return std::ranges::all_of(*steps, [&](const Multiple& multiple) {
    if (value.fraction.size() > multiple.scale) return false;
    std::string digits = value.whole + value.fraction;
    digits.append(multiple.scale - value.fraction.size(), '0');
    uint64_t rest = 0;
    for (const char c : digits) rest = (rest * 10 + static_cast<uint64_t>(c - '0')) % multiple.step;
    return rest == 0;
  });
}

Result<ExprId> number_range(const NumberBounds& bounds, bool strict, GrammarRules& rules, CompileBudget& budget) {
  if (!bounds.excluded.empty()) {  // returns one choice of the ranges between the excluded numbers
    std::vector<Decimal> excluded = bounds.excluded;
    std::ranges::sort(excluded, [](const Decimal& a, const Decimal& b) { return a < b; });
    NumberBounds rest = bounds;  // in round i: the bounds of the numbers above excluded[i - 1]
    rest.excluded.clear();
    std::vector<ExprId> parts;
    for (size_t i = 0; i <= excluded.size() && !rest.clearly_empty(); ++i) {
      NumberBounds part = rest;
      if (i < excluded.size()) {
        part.lower_max(excluded[i], true);
        rest.raise_min(excluded[i], true);
      }
      if (part.clearly_empty()) continue;
      TRY_ASSIGN(const ExprId range, number_range(part, strict, rules, budget));
      parts.push_back(range);
    }
    return rules.choice(parts);
  }
  TRY_ASSIGN(const std::vector<Multiple> multiples, multiples_of(bounds));
  using Bound = MagnitudeWalk::Bound;
  const auto magnitude = [](const Decimal& value) { return Decimal{false, value.whole, value.fraction}; };
  std::vector<ExprId> parts;
  if (!bounds.max || !bounds.max->negative) {
    std::optional<Bound> least, most;
    if (bounds.min && !bounds.min->negative) least = Bound{*bounds.min, bounds.above_min};
    if (bounds.max) most = Bound{*bounds.max, bounds.below_max};
    TRY_ASSIGN(const ExprId part,
               MagnitudeWalk(least ? &*least : nullptr, most ? &*most : nullptr, multiples, bounds, strict)
                   .walk(rules, budget));
    parts.push_back(part);
  }
  if (!bounds.min || bounds.min->negative) {
    Bound least{Decimal(), true};  // the range begins after zero, so that "-0" does not match
    std::optional<Bound> most;
    if (bounds.max && bounds.max->negative) least = {magnitude(*bounds.max), bounds.below_max};
    if (bounds.min) most = Bound{magnitude(*bounds.min), bounds.above_min};
    TRY_ASSIGN(const ExprId part,
               MagnitudeWalk(&least, most ? &*most : nullptr, multiples, bounds, strict).walk(rules, budget));
    parts.push_back(rules.sequence({rules.bytes("-"), part}));
  }
  return rules.choice(parts);
}

namespace {

constexpr uint32_t kMostIndent = 32;

ExprId one_of(std::string_view characters, GrammarRules& rules) {
  CodePointSet set;
  for (const char c : characters) set.add(static_cast<uint8_t>(c));
  return rules.chars(set);
}

ExprId any_hex_digit(GrammarRules& rules) { return one_of("0123456789abcdefABCDEF", rules); }

// Returns \uXXXX for a character other than a surrogate, or two such escapes for a surrogate pair.
ExprId unicode_escapes(GrammarRules& rules) {
  const ExprId hex = any_hex_digit(rules), hex2 = rules.repeat(hex, 2, 2);
  const ExprId u = rules.bytes("\\u"), d = one_of("dD", rules);
  const ExprId not_d = rules.sequence({one_of("0123456789abcefABCEF", rules), hex, hex2});
  const ExprId below = rules.sequence({d, one_of("01234567", rules), hex2});
  const ExprId high = rules.sequence({d, one_of("89abAB", rules), hex2});
  const ExprId low = rules.sequence({d, one_of("cdefCDEF", rules), hex2});
  return rules.sequence({u, rules.choice({not_d, below, rules.sequence({high, u, low})})});
}

// Returns the characters that need no escape in a JSON string.
CodePointSet unescaped() {
  CodePointSet set = CodePointSet::of(0x20, kLastCodePoint);
  CodePointSet escaped = CodePointSet::of('"');
  escaped.add('\\');
  return set.without(escaped);
}

ExprId natural(uint32_t most_digits, GrammarRules& rules) {
  const ExprId more = rules.repeat(rules.chars(CodePointSet::of('0', '9')), 0, most_digits - 1);
  return rules.choice({rules.bytes("0"), rules.sequence({rules.chars(CodePointSet::of('1', '9')), more})});
}

}  // namespace

JsonWriter::JsonWriter(GrammarRules& rules, const JsonFormat& format)
    : rules_(rules), compact_(format.compact), most_digits_(format.strict ? kMostWholeDigits : kMostUsualDigits) {
  quote_ = rules_.bytes("\"");
  const ExprId indent = rules_.repeat(one_of(" \t", rules_), 0, kMostIndent);
  const ExprId blank = rules_.bytes(" ");
  space_ =
      compact_ ? rules_.empty() : rules_.choice({rules_.empty(), blank, rules_.sequence({rules_.bytes("\n"), indent})});
  colon_ = rules_.sequence({rules_.bytes(":"), compact_ ? rules_.empty() : rules_.optional(blank)});
  comma_ = rules_.sequence({rules_.bytes(","), space_});
  plain_char_ =
      rules_.choice({rules_.chars(unescaped()), rules_.sequence({rules_.bytes("\\"), one_of("\"\\/bfnrt", rules_)}),
                     unicode_escapes(rules_)});
}

ExprId JsonWriter::canonical_char(const CodePointSet& set, GrammarRules& rules) {
  const CodePointSet raw = unescaped();
  std::vector<ExprId> parts = {rules.chars(set.intersection(raw))};
  const CodePointSet escaped = set.without(raw);
  for (const CodePointSet::Range& range : escaped.ranges()) {
    for (uint32_t c = range.first; c <= range.last; ++c) {
      std::string text;
      utf8_append(text, c);
      const std::string quoted = json_to_string(Json(text));
      parts.push_back(rules.bytes(std::string_view(quoted).substr(1, quoted.size() - 2)));
    }
  }
  return rules.choice(parts);
}

ExprId JsonWriter::integer() {
  return call_once("integer", [&] {
    return rules_.sequence({rules_.optional(rules_.bytes("-")), natural(most_digits_, rules_)});
  });
}

// Returns the numbers in a double's range. An exponent follows only one digit before the point, and is below 308.
ExprId JsonWriter::number() {
  return call_once("number", [&] {
    const ExprId digit = rules_.chars(CodePointSet::of('0', '9'));
    const uint32_t most_fraction = most_digits_ == kMostWholeDigits ? kUnbounded : most_digits_;
    const ExprId fraction =
        rules_.optional(rules_.sequence({rules_.bytes("."), rules_.repeat(digit, 1, most_fraction)}));
    const ExprId exponent =
        rules_.choice({rules_.repeat(digit, 1, 2), rules_.sequence({one_of("12", rules_), rules_.repeat(digit, 2, 2)}),
                       rules_.sequence({rules_.bytes("30"), one_of("01234567", rules_)})});
    const ExprId scientific = rules_.sequence({rules_.chars(CodePointSet::of('1', '9')), fraction, one_of("eE", rules_),
                                               rules_.optional(one_of("+-", rules_)), exponent});
    return rules_.sequence({rules_.optional(rules_.bytes("-")),
                            rules_.choice({rules_.sequence({natural(most_digits_, rules_), fraction}), scientific})});
  });
}

ExprId JsonWriter::any_value() {
  return call_once("value", [&] {
    return rules_.choice({any_object(), any_array(), plain_string(), number(), rules_.bytes("true"),
                          rules_.bytes("false"), rules_.bytes("null")});
  });
}

ExprId JsonWriter::any_object() {
  return call_once("object", [&] {
    const ExprId pair = rules_.sequence({plain_string(), colon_, any_value()});
    const ExprId pairs = rules_.sequence({pair, rules_.repeat(rules_.sequence({comma_, pair}), 0, kUnbounded), space_});
    return rules_.sequence({rules_.bytes("{"), space_, rules_.optional(pairs), rules_.bytes("}")});
  });
}

ExprId JsonWriter::any_array() {
  return call_once("array", [&] {
    const ExprId value = any_value();
    const ExprId values =
        rules_.sequence({value, rules_.repeat(rules_.sequence({comma_, value}), 0, kUnbounded), space_});
    return rules_.sequence({rules_.bytes("["), space_, rules_.optional(values), rules_.bytes("]")});
  });
}

// The recursion is bounded by the depth limit of parse_json().
ExprId JsonWriter::literal(const Json& value, bool is_integer) {
  std::vector<ExprId> parts;
  if (value.is_object() || value.is_array()) {
    parts = {rules_.bytes(value.is_object() ? "{" : "["), space_};
    bool first = true;
    for (const auto& item : value.items()) {
      if (!std::exchange(first, false)) parts.push_back(comma_);
      if (value.is_object()) parts.insert(parts.end(), {rules_.bytes(json_to_string(Json(item.key()))), colon_});
      parts.push_back(literal(item.value()));
    }
    if (!first) parts.push_back(space_);
    parts.push_back(rules_.bytes(value.is_object() ? "}" : "]"));
    return rules_.sequence(parts);
  }
  parts = {rules_.bytes(json_to_string(value))};
  const double number = value.is_number_float() ? value.get<double>() : 0;
  const double most = is_integer ? 9e18 : 1e15;  // a number of smaller magnitude is exact, as int64_t or as double
  if (value.is_number_float() && std::abs(number) < most && std::trunc(number) == number) {
    if (is_integer) parts.clear();
    parts.push_back(rules_.bytes(std::to_string(static_cast<int64_t>(number))));  // the integer 1.0 is written as 1
  }
  return rules_.choice(parts);
}

Result<Grammar> compile_any_json(AnyJson what, const JsonFormat& format) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("json");
  JsonWriter writer(rules, format);
  rules.define(root, what == AnyJson::kObject ? writer.any_object() : writer.any_value());
  return make_grammar(std::move(rules), "json");
}

}  // namespace ibid
