#include "grammar/grammar.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "grammar/byte_automaton.h"
#include "grammar/configurations.h"
#include "grammar/grammar_rules.h"

namespace ibid {

const std::vector<std::string>& Grammar::ignored() const { return parts_->ignored; }

Result<Grammar> make_grammar(GrammarRules rules, std::string_view what, bool special_tokens_in_first_rule,
                             std::vector<std::string> ignored) {
  Result<ByteAutomaton> automaton = ByteAutomaton::compile(rules);
  if (!automaton.ok()) {
    return {automaton.status().code(), std::string(what) + ": " + automaton.status().message()};
  }
  if (automaton->spells_nothing()) {
    return {ErrorCode::kInvalidArgument, std::string(what) + ": no text satisfies it"};
  }
  auto parts = std::make_shared<Grammar::Parts>(
      Grammar::Parts{std::move(rules), std::move(automaton).value(), special_tokens_in_first_rule, std::move(ignored)});
  return Grammar(std::move(parts));
}

Result<Grammar> compile_choices(const std::vector<std::string>& choices) {
  if (choices.empty()) return {ErrorCode::kInvalidArgument, "choices: the list is empty"};
  GrammarRules rules;
  const RuleId root = rules.add_rule("choices");
  std::vector<ExprId> texts;
  for (const std::string& choice : choices) texts.push_back(rules.bytes(choice));
  rules.define(root, rules.choice(texts));
  return make_grammar(std::move(rules), "choices");
}

Result<TextMatch> match_text(const Grammar& grammar, std::string_view text) {
  if (const std::vector<std::string>& tokens = grammar.parts().automaton.tokens(); !tokens.empty()) {
    return {ErrorCode::kUnsupported, "gbnf: " + tokens[0] + ": a reference to a token needs the vocabulary of a model"};
  }
  Configurations configs(grammar.parts().automaton, Configurations::Limits{});
  configs.begin_work();
  ConfigId config = configs.start();
  for (size_t i = 0; i < text.size(); ++i) {
    config = configs.step(config, static_cast<uint8_t>(text[i]));
    if (configs.limit_reached() != Configurations::LimitReached::kNone) {
      return {ErrorCode::kLimitExceeded, "the text takes too much time or memory to compare with the grammar"};
    }
    if (config == Configurations::kDead) return TextMatch{.accepted = false, .n_matched = i};
  }
  return TextMatch{.accepted = configs.may_end(config), .n_matched = text.size()};
}

Result<bool> grammar_accepts(const Grammar& grammar, std::string_view text) {
  TRY_ASSIGN(const TextMatch match, match_text(grammar, text));
  return match.accepted;
}

Result<Grammar> compile_regex(std::string_view pattern) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("regex");
  const CharWriter write = [&](const CodePointSet& set) { return rules.chars(set); };
  Result<ExprId> expr = compile_pattern(pattern, RegexMatch::kWhole, write, rules);
  if (!expr.ok()) return {expr.status().code(), "regex: " + expr.status().message()};
  rules.define(root, *expr);
  return make_grammar(std::move(rules), "regex");
}

// --- GBNF, the notation of llama.cpp's grammars (grammars/README.md there): rules, quoted texts, classes, groups,
// alternatives, repetitions. A rule ends at the end of its line, except within parentheses and after | and ::=.
// References to tokens (<[123]>, <think>, !<think>) are resolved by make_constraint(), with the model's vocabulary.

namespace {

constexpr size_t kMostGroupDepth = 100;
constexpr size_t kMostGrammarBytes = 4'000'000;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) { rule_of("root"); }

  Result<Grammar> parse() {
    if (text_.size() > kMostGrammarBytes) return {ErrorCode::kLimitExceeded, "gbnf: more than 4 MB"};
    if (!utf8_is_valid(text_)) return {ErrorCode::kInvalidArgument, "gbnf: the text is not UTF-8"};
    skip_space(true);
    while (!done()) parse_rule();
    TRY(status_);
    for (const auto& [name, rule] : names_) {
      if (rule.second) continue;
      return {ErrorCode::kInvalidArgument,
              "gbnf: " + (name == "root" ? "rule root is missing" : "rule " + name + " is used but not defined")};
    }
    return make_grammar(std::move(rules_), "gbnf");
  }

 private:
  bool done() const { return !status_.ok() || at_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(std::string_view token) {
    if (!text_.substr(std::min(at_, text_.size())).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void fail(std::string_view what, ErrorCode code = ErrorCode::kInvalidArgument) {
    if (!status_.ok()) return;
    size_t line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
    status_ = {code, "gbnf: line " + std::to_string(line) + ": " + std::string(what)};
  }

  // Skips spaces, tabs and comments; if `lines` is true, also line breaks.
  void skip_space(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n' && text_[at_ + 1] != '\r') ++at_;
      } else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) {
        break;
      }
    }
  }

  std::string word() {
    std::string out;
    while (is_word(peek())) out += text_[at_++];
    if (out.empty()) fail("expected the name of a rule");
    return out;
  }

  RuleId rule_of(const std::string& name) {
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second.first;
    const RuleId rule = rules_.add_rule(name);
    names_[name] = {rule, false};
    return rule;
  }

  void parse_rule() {
    const std::string name = word();
    skip_space(false);
    if (status_.ok() && !take("::=")) fail("expected ::= after the name of rule " + name);
    if (!status_.ok()) return;
    skip_space(true);
    const RuleId rule = rule_of(name);
    const ExprId expr = alternatives(false, 0);
    if (!done() && peek() != '\n' && peek() != '\r') fail(std::string("'") + peek() + "' is not expected here");
    if (std::exchange(names_[name].second, true)) fail("rule " + name + " is defined twice");
    if (rules_.full()) fail("the grammar is too large", ErrorCode::kLimitExceeded);
    rules_.define(rule, expr);
    skip_space(true);
  }

  ExprId alternatives(bool nested, size_t depth) {
    std::vector<ExprId> parts = {sequence(nested, depth)};
    while (!done() && take("|")) {
      skip_space(true);
      parts.push_back(sequence(nested, depth));
    }
    return rules_.choice(parts);
  }

  ExprId sequence(bool nested, size_t depth) {
    std::vector<ExprId> parts;
    while (!done()) {
      const std::optional<ExprId> item = element(depth);
      if (!item) break;
      parts.push_back(quantified(*item, nested));
    }
    return rules_.sequence(parts);
  }

  // Parses one element of a sequence, for example a quoted text or a group. Returns nullopt at the end of the sequence.
  std::optional<ExprId> element(size_t depth) {
    if (take("\"")) return quoted();
    if (take("[")) return char_class();
    if (take(".")) return rules_.chars(CodePointSet::all());
    if (is_word(peek())) return rules_.call(rule_of(word()));
    if (peek() == '<' || peek() == '!') return token();
    if (!take("(")) return std::nullopt;
    if (depth >= kMostGroupDepth) return fail("groups are nested too deeply", ErrorCode::kLimitExceeded), std::nullopt;
    skip_space(true);
    const ExprId group = alternatives(true, depth + 1);
    if (status_.ok() && !take(")")) fail("a group is not closed");
    return group;
  }

  ExprId token() {
    const bool excluded = take("!");
    const size_t begin = at_;
    if (!take("<")) return fail("expected < after !"), rules_.nothing();
    if (take("[")) {
      while (peek() >= '0' && peek() <= '9') ++at_;
      if (!take("]")) fail("expected ]> after the id of a token");
    } else {
      while (peek() != '>' && peek() != '\n' && at_ < text_.size()) ++at_;
    }
    if (status_.ok() && !take(">")) fail("a reference to a token is not closed with >");
    return rules_.token(text_.substr(begin, at_ - begin), excluded);
  }

  // Parses the quantifiers after an element, and the spaces before and after each quantifier.
  ExprId quantified(ExprId expr, bool nested) {
    while (true) {
      skip_space(nested);
      if (done()) return expr;
      if (take("*")) {
        expr = rules_.repeat(expr, 0, kUnbounded);
      } else if (take("+")) {
        expr = rules_.repeat(expr, 1, kUnbounded);
      } else if (take("?")) {
        expr = rules_.repeat(expr, 0, 1);
      } else if (take("{")) {
        uint32_t min = 0, max = kUnbounded;
        counts(min, max);
        if (status_.ok()) expr = rules_.repeat(expr, min, max);
      } else {
        return expr;
      }
    }
  }

  // Parses the counts of a repetition after its opening brace: "m}", "m,}", "m,n}" or ",n}".
  void counts(uint32_t& min, uint32_t& max) {
    skip_space(false);
    const bool has_min = number(min);
    skip_space(false);
    if (take(",")) {
      skip_space(false);
      if (!number(max)) max = kUnbounded;
      skip_space(false);
    } else {
      if (!has_min) fail("expected a count after {");
      max = min;
    }
    if (status_.ok() && !take("}")) fail("expected } after the counts");
    if (max < min) fail("the maximum count is below the minimum");
  }

  bool number(uint32_t& out) {
    uint64_t value = 0;
    const size_t begin = at_;
    for (; is_decimal_digit(peek()); ++at_) {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(peek() - '0'), kMaxRepetition + 1);
    }
    if (value > kMaxRepetition) fail("a count above " + std::to_string(kMaxRepetition), ErrorCode::kLimitExceeded);
    if (at_ > begin) out = static_cast<uint32_t>(value);
    return at_ > begin;
  }

  ExprId quoted() {
    std::string out;
    while (!done() && peek() != '"') utf8_append(out, character());
    if (status_.ok() && !take("\"")) fail("a quoted text is not closed");
    return rules_.bytes(out);
  }

  ExprId char_class() {
    const bool negated = take("^");
    CodePointSet set;
    while (!done() && peek() != ']') {
      const uint32_t first = character();
      uint32_t last = first;
      if (peek() == '-' && peek(1) != ']' && take("-")) last = character();
      if (last < first) fail("the end of a range is below its beginning");
      set.add(first, last);
    }
    if (status_.ok() && !take("]")) fail("a class is not closed");
    return rules_.chars(negated ? set.complement() : set);
  }

  // Parses one character or escape of a quoted text or class.
  uint32_t character() {
    if (done()) return fail("the grammar ends within a text or class"), 0;
    if (!take("\\")) {
      const DecodedChar c = utf8_decode(text_, at_);
      at_ += c.length;
      return c.code_point;
    }
    const char c = peek();
    if (c == '\0') return fail("the grammar ends within an escape"), 0;
    ++at_;
    switch (c) {
      case 'x': return hexadecimal(2);
      case 'u': return hexadecimal(4);
      case 'U': return hexadecimal(8);
      case 't': return '\t';
      case 'r': return '\r';
      case 'n': return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<uint8_t>(c);
      default: return fail(std::string("\\") + c + " is not an escape"), 0;
    }
  }

  uint32_t hexadecimal(size_t n_digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < n_digits; ++i, ++at_) {
      const int digit = hex_digit(peek());
      if (digit < 0) return fail("expected hexadecimal digits"), 0;
      if (value > kLastCodePoint) return fail("above the last Unicode character"), 0;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (value > kLastCodePoint || (value >= 0xD800 && value < 0xE000)) return fail("not a Unicode character"), 0;
    return value;
  }

  const std::string_view text_;
  size_t at_ = 0;
  Status status_;
  GrammarRules rules_;
  std::map<std::string, std::pair<RuleId, bool>> names_;  // by name: the rule, and whether it was defined so far
};

}  // namespace

Result<Grammar> compile_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace ibid
