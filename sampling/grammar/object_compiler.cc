#include "sampling/grammar/object_compiler.h"

#include <algorithm>

#include "sampling/grammar/regex_parser.h"
#include "sampling/grammar/regular_product.h"

namespace ibid {
namespace {

constexpr size_t kMostNameStates = 20'000;
constexpr size_t kMostPatterns = 20;
constexpr size_t kMostCountedStates = 50'000;

// The text of a string without its quotes, as a rule of its own.
GrammarRules canonical_rules(const auto& make) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("name");
  rules.define(root, make(rules));
  return rules;
}

std::string without_quotes(const std::string& name) {
  const std::string text = json_to_string(Json(name));
  return text.substr(1, text.size() - 2);
}

}  // namespace

ObjectCompiler::ObjectCompiler(SchemaCompiler& compiler, const SchemaPart& part)
    : compiler_(compiler), part_(part), rules_(compiler.rules_), writer_(compiler.writer_) {}

Result<ExprId> ObjectCompiler::compile() {
  if (part_.property_count.min > part_.property_count.max) return rules_.nothing();
  if (part_.pattern_properties.size() > kMostPatterns) {
    return schema_error(ErrorCode::kLimitExceeded, part_.pointer, "patternProperties",
                        "more than " + std::to_string(kMostPatterns) + " patterns");
  }
  TRY(list_properties());
  TRY_ASSIGN(const ExprId others, other_pairs());
  const CountBounds& count = part_.property_count;
  const uint64_t most = count.max == kUnbounded ? count.min : count.max;
  if (count.any() && (most + 1) * (properties_.size() + 1) > kMostCountedStates) {
    return schema_error(ErrorCode::kLimitExceeded, part_.pointer, "minProperties", "too many properties to be counted");
  }
  return graph(others);
}

// Declared ones, then those that are only required.
Status ObjectCompiler::list_properties() {
  std::vector<std::string> names;
  for (const auto& [name, schema] : part_.properties) names.push_back(name);
  const size_t n_declared = names.size();
  for (const std::string& name : part_.required) {
    if (part_.property(name) == nullptr) names.push_back(name);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    TRY_ASSIGN(const SubSchema schema, schema_of(names[i], i < n_declared ? &part_.properties[i].second : nullptr));
    const bool required = std::ranges::find(part_.required, names[i]) != part_.required.end();
    if (is_false(schema) && !required) continue;
    properties_.push_back({names[i], schema, required});
  }
  return {};
}

Result<SubSchema> ObjectCompiler::schema_of(const std::string& name, const SubSchema* own) const {
  SubSchema out = own != nullptr ? *own : SubSchema();
  bool matched = own != nullptr;
  for (const auto& [pattern, schema] : part_.pattern_properties) {
    const Result<bool> matches = pattern_finds(pattern, name);
    if (!matches.ok()) return schema_error(matches.status().code(), schema.pointer, "", matches.status().message());
    if (!*matches) continue;
    out = both(out, schema);
    matched = true;
  }
  if (!matched) out = part_.other_properties;
  for (const SubSchema& names : part_.property_names) {
    TRY_ASSIGN(const SchemaPart asked, asked_of_names(names));
    TRY_ASSIGN(const bool allowed, compiler_.allows(asked, Json(name)));
    const bool listed = !asked.values || std::ranges::find(*asked.values, Json(name)) != asked.values->end();
    if (!allowed || !listed) return SubSchema{false, names.pointer};
  }
  return out;
}

Result<SchemaPart> ObjectCompiler::asked_of_names(const SubSchema& names) const {
  TRY_ASSIGN(SchemaPart asked, read_schema(compiler_.document_, names));
  if (asked.choices.empty()) return asked;
  return schema_error(ErrorCode::kUnsupported, names.pointer, "", "anyOf and oneOf of names are not supported");
}

Result<GrammarRules> ObjectCompiler::names_with(const std::string& pattern) const {
  Status status;
  GrammarRules out = canonical_rules([&](GrammarRules& rules) {
    const CharWriter write = [&](const CodePointSet& set) { return JsonWriter::canonical_char(set, rules); };
    Result<ExprId> expr = parse_regex(pattern, RegexMatch::kSearch, write, rules);
    if (!expr.ok()) status = expr.status();
    return expr.ok() ? *expr : rules.nothing();
  });
  if (!status.ok()) return schema_error(status.code(), part_.pointer, "patternProperties", status.message());
  return out;
}

GrammarRules ObjectCompiler::declared_names() const {
  return canonical_rules([&](GrammarRules& rules) {
    std::vector<ExprId> names;
    for (const auto& [name, schema] : part_.properties) names.push_back(rules.bytes(without_quotes(name)));
    for (const std::string& name : part_.required) {
      if (part_.property(name) == nullptr) names.push_back(rules.bytes(without_quotes(name)));
    }
    return rules.choice(names);
  });
}

// A name that two patterns match would have to satisfy both of their schemas.
Status ObjectCompiler::check_patterns_apart() {
  for (size_t i = 0; i < part_.pattern_properties.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      TRY_ASSIGN(const GrammarRules a, names_with(part_.pattern_properties[i].first));
      TRY_ASSIGN(const GrammarRules b, names_with(part_.pattern_properties[j].first));
      TRY_ASSIGN(const RegularProduct shared, multiply_regular({{&a}, {&b}}, kMostNameStates, rules_));
      if (shared.empty) continue;
      return schema_error(ErrorCode::kUnsupported, part_.pattern_properties[i].second.pointer, "",
                          "the pattern matches names that another pattern matches, too");
    }
  }
  return {};
}

Result<ExprId> ObjectCompiler::other_names(const std::string* pattern) {
  const GrammarRules any = canonical_rules([](GrammarRules& rules) {
    return rules.repeat(JsonWriter::canonical_char(CodePointSet::all(), rules), 0, kUnbounded);
  });
  const GrammarRules declared = declared_names();
  std::vector<GrammarRules> more;
  more.reserve(part_.pattern_properties.size() + part_.property_names.size());
  std::vector<RegularPart> parts = {{&any}, {&declared, true}};
  for (const auto& [other, schema] : part_.pattern_properties) {
    if (pattern != nullptr && other != *pattern) continue;
    TRY_ASSIGN(GrammarRules names, names_with(other));
    more.push_back(std::move(names));
    parts.push_back({&more.back(), pattern == nullptr});
  }
  for (const SubSchema& names : part_.property_names) {
    TRY_ASSIGN(const SchemaPart asked, asked_of_names(names));
    if ((asked.types & kStringType) == 0) return rules_.nothing();
    TRY_ASSIGN(GrammarRules allowed, string_rules(asked, false));
    more.push_back(std::move(allowed));
    parts.push_back({&more.back()});
  }
  if (declared.rule_expr(0) == declared.nothing() && parts.size() == 2) return writer_.plain_string();
  Result<RegularProduct> product = multiply_regular(parts, kMostNameStates, rules_);
  if (!product.ok()) return schema_error(product.status().code(), part_.pointer, "", product.status().message());
  if (product->empty) return rules_.nothing();
  return writer_.quoted(rules_.graph(std::move(product->graph)));
}

Result<ExprId> ObjectCompiler::other_pairs() {
  TRY(check_patterns_apart());
  std::vector<ExprId> pairs;
  for (const auto& [pattern, schema] : part_.pattern_properties) {
    if (is_false(schema)) continue;
    TRY_ASSIGN(const ExprId name, other_names(&pattern));
    pairs.push_back(rules_.sequence({name, writer_.colon(), compiler_.call(schema)}));
  }
  if (!is_false(part_.other_properties)) {
    TRY_ASSIGN(const ExprId name, other_names(nullptr));
    pairs.push_back(rules_.sequence({name, writer_.colon(), compiler_.call(part_.other_properties)}));
  }
  return rules_.choice(pairs);
}

// State (i, c): the next property is the ith or a later one, and c properties were written, as far as they are counted.
// Behind a property one is in a second copy of these states, where a comma leads back or a bracket ends it all.
ExprId ObjectCompiler::graph(ExprId others) {
  const CountBounds& count = part_.property_count;
  const uint32_t n = static_cast<uint32_t>(properties_.size());
  const bool counts = count.any();
  const uint32_t last = !counts ? 0 : count.max == kUnbounded ? count.min : count.max;
  const uint32_t n_counts = last + 1;
  ExprGraph graph;
  graph.n_states = 2 * (n + 1) * n_counts + 2;
  const auto before = [&](uint32_t i, uint32_t c) { return 1 + (i * n_counts + c) * 2; };
  const auto behind = [&](uint32_t i, uint32_t c) { return before(i, c) + 1; };
  const uint32_t end = graph.n_states - 1;
  // The count behind one more; nothing: there may be no more.
  const auto one_more = [&](uint32_t c) { return !counts || c < last ? (counts ? c + 1 : 0) : c; };
  const auto may_go_on = [&](uint32_t c) { return !counts || count.max == kUnbounded || c < last; };
  const auto may_close = [&](uint32_t i, uint32_t c) {
    return (!counts || c >= count.min) &&
           std::none_of(properties_.begin() + i, properties_.end(), [](const Property& p) { return p.required; });
  };
  std::vector<ExprId> pairs;
  for (const Property& property : properties_) {
    pairs.push_back(rules_.sequence({rules_.bytes(json_to_string(Json(property.name))), writer_.colon(),
                                     compiler_.call(property.schema)}));
  }
  graph.add_edge(0, rules_.sequence({rules_.bytes("{"), writer_.space()}), before(0, 0));
  if (may_close(0, 0)) graph.add_edge(0, rules_.sequence({rules_.bytes("{"), writer_.space(), rules_.bytes("}")}), end);
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("}")});
  bool closable = true;  // no required property is left
  for (uint32_t i = n + 1; i-- > 0;) {
    if (i < n) closable &= !properties_[i].required;
    for (uint32_t c = 0; c < n_counts; ++c) {
      if (closable && (!counts || c >= count.min)) graph.add_edge(behind(i, c), close, end);
      if (!may_go_on(c)) continue;
      graph.add_edge(behind(i, c), writer_.comma(), before(i, c));
      if (i == n) {
        graph.add_edge(before(n, c), others, behind(n, one_more(c)));
        continue;
      }
      graph.add_edge(before(i, c), pairs[i], behind(i + 1, one_more(c)));
      if (!properties_[i].required) graph.add_edge(before(i, c), rules_.empty(), before(i + 1, c));
    }
  }
  graph.finals = {end};
  return rules_.graph(std::move(graph));
}

}  // namespace ibid
