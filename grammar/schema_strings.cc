// What a schema asks of strings: length, patterns, formats.
#include <algorithm>

#include "base/utf8.h"
#include "grammar/grammar_parts.h"
#include "grammar/regex_parser.h"
#include "grammar/regular_product.h"
#include "grammar/schema_compiler.h"

namespace ibid {
namespace {

constexpr size_t kMostStringStates = 20'000;

struct Wanted {
  std::string pattern;
  PlaceId place;
  std::string_view keyword;
};

Status wrong(const SchemaDocument& document, const Wanted& wanted, const Status& status) {
  return schema_error(status.code(), pointer_of_text(document, wanted.place, wanted.keyword), "", status.message());
}

Status at_place(const SchemaDocument& document, const SchemaPart& part, const Status& status) {
  return schema_error(status.code(), document.pointer_of(part.schema), "", status.message());
}

// Patterns and formats, all as patterns.
Result<std::vector<Wanted>> wanted_patterns(const SchemaDocument& document, const SchemaPart& part) {
  std::vector<Wanted> out;
  for (const auto& [pattern, place] : part.patterns) out.push_back({std::string(pattern), place, "pattern"});
  for (const auto& [name, place] : part.formats) {
    const char* pattern = format_pattern(name);
    if (pattern == nullptr) {
      return schema_error(ErrorCode::kUnsupported, pointer_of_text(document, place, "format"), "",
                          "the format \"" + std::string(name) + "\" is not supported");
    }
    out.push_back({std::string("^(?:") + pattern + ")$", place, "format"});
  }
  std::ranges::sort(out, {}, &Wanted::pattern);
  // Not std::ranges::unique: clang 14, which builds the fuzzers, cannot compile libstdc++'s.
  const auto same = [](const Wanted& a, const Wanted& b) { return a.pattern == b.pattern; };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  return out;
}

Result<ExprId> add_pattern(const SchemaDocument& document, const Wanted& wanted, GrammarRules& rules) {
  TRY(document.spend(wanted.pattern.size(), kAnySchema));
  const CharWriter write = [&](const CodePointSet& set) { return JsonWriter::canonical_char(set, rules); };
  Result<ExprId> expr = parse_regex(wanted.pattern, RegexMatch::kSearch, write, rules);
  if (expr.ok()) return expr;
  return wrong(document, wanted, expr.status());
}

ExprId add_lengths(const CountBounds& length, GrammarRules& rules) {
  return rules.repeat(JsonWriter::canonical_char(CodePointSet::all(), rules), length.min, length.max);
}

// The characters of the strings in canonical spelling.
Result<ExprId> canonical_strings(SchemaDocument& document, const SchemaPart& part, GrammarRules& rules) {
  if (part.length.min > part.length.max) return rules.nothing();
  TRY_ASSIGN(const std::vector<Wanted> patterns, wanted_patterns(document, part));
  if (patterns.empty()) return add_lengths(part.length, rules);
  if (patterns.size() == 1 && !part.length.any()) return add_pattern(document, patterns[0], rules);
  std::vector<RegularLanguage> languages;
  for (size_t i = 0; i <= patterns.size(); ++i) {
    if (i == patterns.size() && !part.length.any()) break;
    GrammarRules own;
    const RuleId root = own.add_rule("string");
    if (i < patterns.size()) {
      TRY_ASSIGN(const ExprId expr, add_pattern(document, patterns[i], own));
      own.define(root, expr);
    } else {
      own.define(root, add_lengths(part.length, own));
    }
    Result<RegularLanguage> language = RegularLanguage::compile(own, document.budget());
    if (!language.ok()) return at_place(document, part, language.status());
    languages.push_back(std::move(language).value());
  }
  std::vector<RegularPart> parts;
  for (RegularLanguage& language : languages) parts.push_back({&language});
  Result<RegularProduct> product = multiply_regular(parts, kMostStringStates, rules, document.budget());
  if (!product.ok()) return at_place(document, part, product.status());
  return product->empty ? rules.nothing() : rules.graph(std::move(product->graph));
}

}  // namespace

Result<ExprId> string_values(SchemaDocument& document, const SchemaPart& part, JsonWriter& writer) {
  if (!part.asks_of_strings()) return writer.plain_string();
  std::string name = "string " + std::to_string(part.length.min) + ' ' + std::to_string(part.length.max);
  for (const auto& list : {&part.patterns, &part.formats}) {
    name += '\n';
    for (const auto& [text, place] : *list) {
      name += std::to_string(text.size()) + ':';
      name += text;
    }
  }
  TRY(document.spend(name.size() / 8, part.schema));
  Status status;
  const ExprId out = writer.call_once(name, [&]() -> ExprId {
    GrammarRules& rules = writer.rules();
    if (part.patterns.empty() && part.formats.empty()) {
      if (part.length.min > part.length.max) return rules.nothing();
      return writer.quoted(rules.repeat(writer.plain_char(), part.length.min, part.length.max));
    }
    Result<ExprId> characters = canonical_strings(document, part, rules);
    if (characters.ok()) return writer.quoted(*characters);
    status = characters.status();
    return rules.nothing();
  });
  TRY(status);
  return out;
}

Result<GrammarRules> string_rules(SchemaDocument& document, const SchemaPart& part) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("string");
  ExprId all = rules.nothing();
  if (part.values) {
    std::vector<ExprId> texts;
    for (const ListedValue& value : *part.values) {
      if (!value.json->is_string()) continue;
      TRY_ASSIGN(const bool allowed, string_allowed(document, part, value.json->get<std::string>()));
      const std::string text = json_to_string(*value.json);
      if (allowed) texts.push_back(rules.bytes(std::string_view(text).substr(1, text.size() - 2)));
    }
    all = rules.choice(texts);
  } else {
    TRY_ASSIGN(all, canonical_strings(document, part, rules));
  }
  rules.define(root, all);
  return rules;
}

Result<bool> string_allowed(SchemaDocument& document, const SchemaPart& part, const std::string& value) {
  TRY(document.spend(1 + value.size() / 8, part.schema));
  size_t length = 0;
  for (size_t i = 0; i < value.size(); ++length) i += utf8_decode(value, i).length;
  if (length < part.length.min || length > part.length.max) return false;
  TRY_ASSIGN(const std::vector<Wanted> patterns, wanted_patterns(document, part));
  for (const Wanted& wanted : patterns) {
    const Result<bool> found = document.patterns().finds(wanted.pattern, value);
    if (!found.ok()) return wrong(document, wanted, found.status());
    if (!*found) return false;
  }
  return true;
}

}  // namespace ibid
