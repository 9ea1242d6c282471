// What a schema asks of strings: length, patterns, formats.
#include <algorithm>

#include "base/utf8.h"
#include "sampling/grammar/grammar_parts.h"
#include "sampling/grammar/regex_parser.h"
#include "sampling/grammar/regular_product.h"
#include "sampling/grammar/schema_compiler.h"

namespace ibid {
namespace {

constexpr size_t kMostStringStates = 20'000;

struct Wanted {
  std::string pattern;
  std::string pointer;
};

// Patterns and formats, all as patterns.
Result<std::vector<Wanted>> wanted_patterns(const SchemaPart& part) {
  std::vector<Wanted> out;
  for (const auto& [pattern, pointer] : part.patterns) out.push_back({pattern, pointer});
  for (const auto& [name, pointer] : part.formats) {
    const char* pattern = format_pattern(name);
    if (pattern == nullptr) {
      return schema_error(ErrorCode::kUnsupported, pointer, "", "the format \"" + name + "\" is not supported");
    }
    out.push_back({std::string("^(?:") + pattern + ")$", pointer});
  }
  std::ranges::sort(out, {}, &Wanted::pattern);
  // Not std::ranges::unique: clang 14, which builds the fuzzers, cannot compile libstdc++'s.
  const auto same = [](const Wanted& a, const Wanted& b) { return a.pattern == b.pattern; };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  return out;
}

Result<ExprId> add_pattern(const Wanted& wanted, GrammarRules& rules) {
  const CharWriter write = [&](const CodePointSet& set) { return JsonWriter::canonical_char(set, rules); };
  Result<ExprId> expr = parse_regex(wanted.pattern, RegexMatch::kSearch, write, rules);
  if (expr.ok()) return expr;
  return schema_error(expr.status().code(), wanted.pointer, "", expr.status().message());
}

ExprId add_lengths(const CountBounds& length, GrammarRules& rules) {
  return rules.repeat(JsonWriter::canonical_char(CodePointSet::all(), rules), length.min, length.max);
}

// The characters of the strings in canonical spelling.
Result<ExprId> canonical_strings(const SchemaPart& part, GrammarRules& rules) {
  if (part.length.min > part.length.max) return rules.nothing();
  TRY_ASSIGN(const std::vector<Wanted> patterns, wanted_patterns(part));
  if (patterns.empty()) return add_lengths(part.length, rules);
  if (patterns.size() == 1 && !part.length.any()) return add_pattern(patterns[0], rules);
  std::vector<GrammarRules> grammars;
  for (size_t i = 0; i <= patterns.size(); ++i) {
    if (i == patterns.size() && !part.length.any()) break;
    GrammarRules own;
    const RuleId root = own.add_rule("string");
    if (i < patterns.size()) {
      TRY_ASSIGN(const ExprId expr, add_pattern(patterns[i], own));
      own.define(root, expr);
    } else {
      own.define(root, add_lengths(part.length, own));
    }
    grammars.push_back(std::move(own));
  }
  std::vector<RegularPart> parts;
  for (const GrammarRules& grammar : grammars) parts.push_back({&grammar});
  Result<RegularProduct> product = multiply_regular(parts, kMostStringStates, rules);
  if (!product.ok()) return schema_error(product.status().code(), part.pointer, "", product.status().message());
  return product->empty ? rules.nothing() : rules.graph(std::move(product->graph));
}

}  // namespace

Result<ExprId> string_values(const SchemaPart& part, JsonWriter& writer) {
  if (!part.asks_of_strings()) return writer.plain_string();
  std::string name = "string " + std::to_string(part.length.min) + ' ' + std::to_string(part.length.max);
  for (const auto& list : {&part.patterns, &part.formats}) {
    name += '\n';
    for (const auto& [text, pointer] : *list) name += std::to_string(text.size()) + ':' + text;
  }
  Status status;
  const ExprId out = writer.call_once(name, [&]() -> ExprId {
    GrammarRules& rules = writer.rules();
    if (part.patterns.empty() && part.formats.empty()) {
      if (part.length.min > part.length.max) return rules.nothing();
      return writer.quoted(rules.repeat(writer.plain_char(), part.length.min, part.length.max));
    }
    Result<ExprId> characters = canonical_strings(part, rules);
    if (characters.ok()) return writer.quoted(*characters);
    status = characters.status();
    return rules.nothing();
  });
  TRY(status);
  return out;
}

Result<GrammarRules> string_rules(const SchemaPart& part, bool quoted) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("string");
  const ExprId quote = quoted ? rules.bytes("\"") : rules.empty();
  ExprId all = rules.nothing();
  if (part.values) {
    std::vector<ExprId> texts;
    for (const Json& value : *part.values) {
      if (!value.is_string()) continue;
      TRY_ASSIGN(const bool allowed, string_allowed(part, value.get<std::string>()));
      const std::string text = json_to_string(value);
      if (allowed) texts.push_back(rules.bytes(std::string_view(text).substr(1, text.size() - 2)));
    }
    all = rules.choice(texts);
  } else {
    TRY_ASSIGN(all, canonical_strings(part, rules));
  }
  rules.define(root, rules.sequence({quote, all, quote}));
  return rules;
}

Result<bool> string_allowed(const SchemaPart& part, const std::string& value) {
  size_t length = 0;
  for (size_t i = 0; i < value.size(); ++length) i += utf8_decode(value, i).length;
  if (length < part.length.min || length > part.length.max) return false;
  TRY_ASSIGN(const std::vector<Wanted> patterns, wanted_patterns(part));
  for (const Wanted& wanted : patterns) {
    const Result<bool> found = pattern_finds(wanted.pattern, value);
    if (!found.ok()) return schema_error(found.status().code(), wanted.pointer, "", found.status().message());
    if (!*found) return false;
  }
  return true;
}

}  // namespace ibid
