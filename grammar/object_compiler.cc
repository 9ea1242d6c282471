#include "grammar/schema_compiler.h"

#include <algorithm>

#include "grammar/grammar_rules.h"

namespace ibid {
namespace {

constexpr size_t kMostNameStates = 20'000;
constexpr size_t kMostPatterns = 20;
constexpr size_t kMostCountedStates = 50'000;

// Returns rules of their own for a string without its quotes.
GrammarRules canonical_rules(const auto& make) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("name");
  rules.define(root, make(rules));
  return rules;
}

std::string without_quotes(std::string_view name) {
  const std::string text = json_to_string(Json(name));
  return text.substr(1, text.size() - 2);
}

}  // namespace

ObjectCompiler::ObjectCompiler(SchemaCompiler& compiler, const SchemaPart& part)
    : compiler_(compiler),
      document_(compiler.document_),
      part_(part),
      rules_(compiler.rules_),
      writer_(compiler.writer_) {}

Result<ExprId> ObjectCompiler::compile() {
  if (part_.property_count.min > part_.property_count.max) return rules_.nothing();
  if (part_.pattern_properties.size() > kMostPatterns) {
    return schema_error(ErrorCode::kLimitExceeded, document_.pointer_of(part_.schema), "patternProperties",
                        "more than " + std::to_string(kMostPatterns) + " patterns");
  }
  TRY(read_property_names());
  TRY(list_properties());
  TRY_ASSIGN(const ExprId others, other_pairs());
  const CountBounds& count = part_.property_count;
  const uint64_t most = count.max == kUnbounded ? count.min : count.max;
  if (count.any() && (most + 1) * (properties_.size() + 1) > kMostCountedStates) {
    return schema_error(ErrorCode::kLimitExceeded, document_.pointer_of(part_.schema), "minProperties",
                        "too many properties to be counted");
  }
  TRY(document_.spend(properties_.size() * (count.any() ? most + 1 : 1) * 4, part_.schema));
  return graph(others);
}

Status ObjectCompiler::at_place(const Status& status) const {
  return schema_error(status.code(), document_.pointer_of(part_.schema), "", status.message());
}

Status ObjectCompiler::read_property_names() {
  for (const SchemaId names : part_.property_names) {
    TRY_ASSIGN(SchemaPart asked, read_schema(document_, names));
    if (!asked.choices.empty()) {
      return schema_error(ErrorCode::kUnsupported, document_.pointer_of(names), "",
                          "anyOf and oneOf are not supported for property names");
    }
    std::unordered_set<std::string_view> listed;
    if (asked.values) {
      for (const ListedValue& value : *asked.values) {
        if (value.json->is_string()) listed.insert(value.json->get_ref<const std::string&>());
      }
    }
    asked_of_names_.push_back({std::move(asked), std::move(listed)});
  }
  return {};
}

// Lists the declared properties, then those that are only required.
Status ObjectCompiler::list_properties() {
  const PropertyIndex index(part_);
  for (const auto& [name, schema] : part_.properties) names_.push_back(name);
  for (const std::string_view name : part_.required) {
    if (index.find(name) == nullptr) names_.push_back(name);
  }
  for (const std::string_view name : names_) {
    TRY_ASSIGN(const SchemaId schema, schema_of(name, index.find(name)));
    const bool required = index.requires_name(name);
    if (schema == kNoSchema && !required) continue;
    properties_.push_back({name, schema, required});
  }
  return {};
}

Result<SchemaId> ObjectCompiler::schema_of(std::string_view name, const SchemaId* own) {
  SchemaId out = own != nullptr ? *own : kAnySchema;
  bool matched = own != nullptr;
  for (const auto& [pattern, schema] : part_.pattern_properties) {
    const Result<bool> matches = document_.patterns().finds(pattern, name);
    if (!matches.ok()) {
      return schema_error(matches.status().code(), document_.pointer_of(part_.schema), "patternProperties",
                          matches.status().message());
    }
    if (!*matches) continue;
    out = document_.both(out, schema);
    matched = true;
  }
  if (!matched) out = part_.other_properties;
  for (const NameConstraints& asked : asked_of_names_) {
    TRY_ASSIGN(const bool allowed, is_name(asked, std::string(name)));
    if (!allowed) return kNoSchema;
  }
  return out;
}

Result<bool> ObjectCompiler::is_name(const NameConstraints& asked, const std::string& name) {
  if ((asked.part.types & kStringType) == 0 || (asked.part.values && !asked.listed.contains(name))) return false;
  return string_allowed(document_, asked.part, name);
}

// Makes a trie of the names: those with a common prefix share states.
GrammarRules ObjectCompiler::declared_names() const {
  return canonical_rules([&](GrammarRules& rules) {
    std::vector<std::string> names;
    for (const std::string_view name : names_) names.push_back(without_quotes(name));
    std::ranges::sort(names);
    ExprGraph tree;
    std::vector<uint32_t> path = {0};  // states of the previous name, one per byte
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string before = i == 0 ? "" : names[i - 1];
      size_t shared = 0;
      while (shared < std::min(before.size(), names[i].size()) && before[shared] == names[i][shared]) ++shared;
      path.resize(shared + 1);
      for (size_t k = shared; k < names[i].size(); ++k) {
        const auto byte = static_cast<uint8_t>(names[i][k]);
        const uint32_t next = tree.add_state();
        tree.add_edge(path.back(), rules.byte_range(byte, byte), next);
        path.push_back(next);
      }
      tree.finals.push_back(path.back());
    }
    return names.empty() ? rules.nothing() : rules.graph(std::move(tree));
  });
}

Status ObjectCompiler::compile_patterns() {
  for (const auto& [pattern, schema] : part_.pattern_properties) {
    TRY(document_.spend(pattern.size(), part_.schema));
    Status status;
    const GrammarRules names = canonical_rules([&, &regex = pattern](GrammarRules& rules) {
      const CharWriter write = [&](const CodePointSet& set) { return JsonWriter::canonical_char(set, rules); };
      Result<ExprId> expr = parse_regex(regex, RegexMatch::kSearch, write, rules);
      if (!expr.ok()) status = expr.status();
      return expr.ok() ? *expr : rules.nothing();
    });
    Result<RegularLanguage> language =
        status.ok() ? RegularLanguage::compile(names, document_.budget()) : Result<RegularLanguage>(status);
    if (!language.ok()) {
      return schema_error(language.status().code(), document_.pointer_of(part_.schema), "patternProperties",
                          language.status().message());
    }
    patterns_.push_back(std::move(language).value());
  }
  return {};
}

// Error if a name can match two patterns, because it would have to satisfy both schemas.
Status ObjectCompiler::check_patterns_apart() {
  for (size_t i = 0; i < patterns_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Result<bool> shared = share_a_text({{&patterns_[i]}, {&patterns_[j]}}, kMostNameStates, document_.budget());
      if (!shared.ok()) return at_place(shared.status());
      if (!*shared) continue;
      const std::string all = child_pointer(document_.pointer_of(part_.schema), "patternProperties");
      return schema_error(ErrorCode::kUnsupported, child_pointer(all, part_.pattern_properties[i].first), "",
                          "the pattern matches names that another pattern matches too");
    }
  }
  return {};
}

Result<ExprId> ObjectCompiler::other_names(std::optional<size_t> pattern) {
  if (names_.empty() && patterns_.empty() && asked_of_names_.empty()) return writer_.plain_string();
  std::vector<RegularLanguage> more;
  more.reserve(asked_of_names_.size());
  std::vector<RegularPart> parts = {{&*any_name_}, {&*declared_, true}};
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (!pattern || *pattern == i) parts.push_back({&patterns_[i], !pattern});
  }
  for (const NameConstraints& asked : asked_of_names_) {
    if ((asked.part.types & kStringType) == 0) return rules_.nothing();
    TRY_ASSIGN(const GrammarRules allowed, string_rules(document_, asked.part));
    Result<RegularLanguage> language = RegularLanguage::compile(allowed, document_.budget());
    if (!language.ok()) return at_place(language.status());
    more.push_back(std::move(language).value());
    parts.push_back({&more.back()});
  }
  Result<RegularProduct> product = multiply_regular(parts, kMostNameStates, rules_, document_.budget());
  if (!product.ok()) return at_place(product.status());
  if (product->empty) return rules_.nothing();
  return writer_.quoted(rules_.graph(std::move(product->graph)));
}

Result<ExprId> ObjectCompiler::other_pairs() {
  TRY(compile_patterns());
  TRY(check_patterns_apart());
  if (patterns_.empty() && part_.other_properties == kNoSchema) return rules_.nothing();
  const GrammarRules any = canonical_rules([](GrammarRules& rules) {
    return rules.repeat(JsonWriter::canonical_char(CodePointSet::all(), rules), 0, kUnbounded);
  });
  TRY_ASSIGN(any_name_, RegularLanguage::compile(any, document_.budget()));
  TRY_ASSIGN(declared_, RegularLanguage::compile(declared_names(), document_.budget()));
  std::vector<ExprId> pairs;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const SchemaId schema = part_.pattern_properties[i].second;
    if (schema == kNoSchema) continue;
    TRY_ASSIGN(const ExprId name, other_names(i));
    pairs.push_back(rules_.sequence({name, writer_.colon(), compiler_.call(schema)}));
  }
  if (part_.other_properties != kNoSchema) {
    TRY_ASSIGN(const ExprId name, other_names(std::nullopt));
    pairs.push_back(rules_.sequence({name, writer_.colon(), compiler_.call(part_.other_properties)}));
  }
  return rules_.choice(pairs);
}

// State (i, c): the next property is number i or later, and c properties were written (counted only as far as the
// bounds require). After a property the walk is in a second copy of these states, from which a comma leads back and a
// bracket ends the object.
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
  // The count after one more property, capped.
  const auto one_more = [&](uint32_t c) { return !counts || c < last ? (counts ? c + 1 : 0) : c; };
  const auto may_go_on = [&](uint32_t c) { return !counts || count.max == kUnbounded || c < last; };
  const auto may_close = [&](uint32_t i, uint32_t c) {
    return (!counts || c >= count.min) &&
           std::none_of(properties_.begin() + i, properties_.end(), [](const Property& p) { return p.required; });
  };
  std::vector<ExprId> pairs;
  for (const Property& property : properties_) {
    pairs.push_back(rules_.sequence(
        {rules_.bytes(json_to_string(Json(property.name))), writer_.colon(), compiler_.call(property.schema)}));
  }
  graph.add_edge(0, rules_.sequence({rules_.bytes("{"), writer_.space()}), before(0, 0));
  if (may_close(0, 0)) graph.add_edge(0, rules_.sequence({rules_.bytes("{"), writer_.space(), rules_.bytes("}")}), end);
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("}")});
  bool closable = true;  // no required property is left, so the object may end
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
