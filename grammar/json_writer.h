// JsonWriter: how JSON texts are written, as expressions: values, strings, numbers, and the white space between them.
// It writes into the rules of a grammar that is being compiled, each thing once.
//
// There are two spellings of strings. A plain one may have every escape of JSON but lone surrogates. A canonical one
// escapes only what has to be escaped, in one way: so that what is said of its characters (a pattern, that it is none
// of some names) can be said of its bytes.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "grammar/grammar.h"
#include "grammar/grammar_rules.h"

namespace ibid {

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
