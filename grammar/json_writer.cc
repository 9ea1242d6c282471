#include "grammar/json_writer.h"

#include <cmath>
#include <vector>

#include "base/json_limits.h"
#include "base/utf8.h"
#include "grammar/decimal_ranges.h"
#include "grammar/grammar_parts.h"

namespace ibid {
namespace {

constexpr uint32_t kMostIndent = 32;

ExprId one_of(std::string_view characters, GrammarRules& rules) {
  CodePointSet set;
  for (const char c : characters) set.add(static_cast<uint8_t>(c));
  return rules.chars(set);
}

ExprId hex_digit(GrammarRules& rules) { return one_of("0123456789abcdefABCDEF", rules); }

// \uXXXX: a character that is no surrogate, or two surrogates that are one.
ExprId unicode_escapes(GrammarRules& rules) {
  const ExprId hex = hex_digit(rules), hex2 = rules.repeat(hex, 2, 2);
  const ExprId u = rules.bytes("\\u"), d = one_of("dD", rules);
  const ExprId not_d = rules.sequence({one_of("0123456789abcefABCEF", rules), hex, hex2});
  const ExprId below = rules.sequence({d, one_of("01234567", rules), hex2});
  const ExprId high = rules.sequence({d, one_of("89abAB", rules), hex2});
  const ExprId low = rules.sequence({d, one_of("cdefCDEF", rules), hex2});
  return rules.sequence({u, rules.choice({not_d, below, rules.sequence({high, u, low})})});
}

// What stands in a JSON string as it is.
CodePointSet unescaped() {
  CodePointSet set = CodePointSet::of(0x20, kLastCodePoint);
  CodePointSet escaped = CodePointSet::of('"');
  escaped.add('\\');
  return set.without(escaped);
}

ExprId digits(uint32_t min, GrammarRules& rules) {
  return rules.repeat(rules.chars(CodePointSet::of('0', '9')), min, kUnbounded);
}

ExprId natural(GrammarRules& rules) {
  const ExprId more = rules.repeat(rules.chars(CodePointSet::of('0', '9')), 0, kMostWholeDigits - 1);
  return rules.choice({rules.bytes("0"), rules.sequence({rules.chars(CodePointSet::of('1', '9')), more})});
}

}  // namespace

JsonWriter::JsonWriter(GrammarRules& rules, const JsonFormat& format) : rules_(rules), compact_(format.compact) {
  quote_ = rules_.bytes("\"");
  const ExprId indent = rules_.repeat(one_of(" \t", rules_), 0, kMostIndent);
  const ExprId blank = rules_.bytes(" ");
  space_ = compact_ ? rules_.empty()
                    : rules_.choice({rules_.empty(), blank, rules_.sequence({rules_.bytes("\n"), indent})});
  colon_ = rules_.sequence({rules_.bytes(":"), compact_ ? rules_.empty() : rules_.optional(blank)});
  comma_ = rules_.sequence({rules_.bytes(","), space_});
  plain_char_ = rules_.choice({rules_.chars(unescaped()),
                               rules_.sequence({rules_.bytes("\\"), one_of("\"\\/bfnrt", rules_)}),
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
    return rules_.sequence({rules_.optional(rules_.bytes("-")), natural(rules_)});
  });
}

// Numbers that a double can hold: an exponent only behind one digit, and below 308.
ExprId JsonWriter::number() {
  return call_once("number", [&] {
    const ExprId fraction = rules_.optional(rules_.sequence({rules_.bytes("."), digits(1, rules_)}));
    const ExprId digit = rules_.chars(CodePointSet::of('0', '9'));
    const ExprId exponent = rules_.choice(
        {rules_.repeat(digit, 1, 2), rules_.sequence({one_of("12", rules_), rules_.repeat(digit, 2, 2)}),
         rules_.sequence({rules_.bytes("30"), one_of("01234567", rules_)})});
    const ExprId scientific =
        rules_.sequence({rules_.chars(CodePointSet::of('1', '9')), fraction, one_of("eE", rules_),
                         rules_.optional(one_of("+-", rules_)), exponent});
    return rules_.sequence({rules_.optional(rules_.bytes("-")),
                            rules_.choice({rules_.sequence({natural(rules_), fraction}), scientific})});
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

// Depth is that of parse_json().
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
  const double most = is_integer ? 9e18 : 1e15;  // of 64 bits
  if (value.is_number_float() && std::abs(number) < most && std::trunc(number) == number) {
    if (is_integer) parts.clear();
    parts.push_back(rules_.bytes(std::to_string(static_cast<int64_t>(number))));  // 1.0 is 1
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
