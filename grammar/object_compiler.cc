#include "grammar/schema_compiler.h"

#include <algorithm>

#include "grammar/grammar_rules.h"

namespace ibid {
namespace {

constexpr size_t kMostNameStates = 20'000;
constexpr size_t kMostPatterns = 20;
constexpr size_t kMostOverlapping = 4;  // maximum number of patternProperties if one name may match several of them
constexpr size_t kMostCountedStates = 50'000;
constexpr size_t kMostUnordered = 11;            // maximum number of properties that may come in any order
constexpr size_t kMostUnorderedStates = 50'000;  // maximum states for properties in any order, in the whole schema

// Returns a separate grammar of strings in canonical notation. make(rules) returns the expression of its first rule, a
// string without its quotes.
GrammarRules single_rule_grammar(const auto& make) {
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
  const size_t n = properties_.size();
  const size_t n_counts = count.any() ? most + 1 : part_.needs_other_property ? 2 : 1;
  // Count edges, which outnumber states: each set of written properties has one edge for each missing property.
  const size_t n_unordered = n <= kMostUnordered ? n_counts * (n + 2) << n : kMostUnorderedStates + 1;
  const bool any_order = n > 0 && !compiler_.format_.for_answers;
  if (any_order && compiler_.n_unordered_states_ + n_unordered <= kMostUnorderedStates) {
    compiler_.n_unordered_states_ += n_unordered;
    TRY(document_.spend(n_unordered * 4, part_.schema));
    return in_any_order(others);
  }
  TRY(document_.spend(n * n_counts * 4, part_.schema));
  return in_order(others);
}

bool ObjectCompiler::is_closed(const SchemaDocument& document, const SchemaPart& part) {
  if (!part.pattern_properties.empty()) return false;
  if (part.other_properties == kNoSchema) return true;
  return !document.strict() && part.lists_properties && !part.mentions_others && part.other_properties == kAnySchema &&
         !part.needs_other_property && part.property_count.min <= part.properties.size();
}

Status ObjectCompiler::at_place(const Status& status) const {
  return schema_error(status.code(), document_.pointer_of(part_.schema), "", status.message());
}

Status ObjectCompiler::read_property_names() {
  for (const SchemaId names : part_.property_names) {
    TRY_ASSIGN(SchemaPart constraints, read_schema(document_, names));
    if (!constraints.choices.empty()) {
      return schema_error(ErrorCode::kUnsupported, document_.pointer_of(names), "",
                          "anyOf and oneOf are not supported for property names");
    }
    std::unordered_set<std::string_view> listed;
    if (constraints.values) {
      for (const ListedValue& value : *constraints.values) {
        if (value.json->is_string()) listed.insert(value.json->get_ref<const std::string&>());
      }
    }
    name_constraints_.push_back({std::move(constraints), std::move(listed)});
  }
  return {};
}

// Collects in names_ the declared properties, and then the names that are required but not declared.
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
  SchemaId out = kAnySchema;
  if (own != nullptr) {
    out = *own;
  } else {
    TRY_ASSIGN(out, schema_for_undeclared(document_, part_, name));
  }
  for (const NameConstraints& constraints : name_constraints_) {
    TRY_ASSIGN(const bool allowed, is_name(constraints, std::string(name)));
    if (!allowed) return kNoSchema;
  }
  return out;
}

Result<bool> ObjectCompiler::is_name(const NameConstraints& constraints, const std::string& name) {
  if ((constraints.part.types & kStringType) == 0 || (constraints.part.values && !constraints.listed.contains(name)))
    return false;
  return string_allowed(document_, constraints.part, name);
}

// Makes a trie of the names: names with a common prefix share states.
GrammarRules ObjectCompiler::declared_names() const {
  return single_rule_grammar([&](GrammarRules& rules) {
    std::vector<std::string> names;
    for (const std::string_view name : names_) names.push_back(without_quotes(name));
    std::ranges::sort(names);
    ExprGraph tree;
    std::vector<uint32_t> path = {0};  // states of the trie along the previous name, one per byte
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
    const GrammarRules names = single_rule_grammar([&, &regex = pattern](GrammarRules& rules) {
      const CharWriter write = [&](const CodePointSet& set) { return JsonWriter::canonical_char(set, rules); };
      Result<ExprId> expr = compile_pattern(regex, RegexMatch::kSearch, write, rules);
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

// Returns the sets of patternProperties that one name may match at the same time; bit i is pattern i.
Result<std::vector<uint32_t>> ObjectCompiler::pattern_sets() {
  std::vector<uint32_t> sets;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    sets.push_back(1u << i);
    for (size_t j = 0; j < i; ++j) {
      const Result<bool> shared = share_a_text({{&patterns_[i]}, {&patterns_[j]}}, kMostNameStates, document_.budget());
      if (!shared.ok()) return at_place(shared.status());
      patterns_overlap_ |= *shared;
      if (!*shared || patterns_.size() <= kMostOverlapping) continue;
      const std::string all = child_pointer(document_.pointer_of(part_.schema), "patternProperties");
      return schema_error(ErrorCode::kUnsupported, child_pointer(all, part_.pattern_properties[i].first), "",
                          "the pattern matches names that another one matches too, which is only supported for up to " +
                              std::to_string(kMostOverlapping) + " patterns");
    }
  }
  if (!patterns_overlap_) return sets;
  sets.clear();
  for (uint32_t set = 1; set < 1u << patterns_.size(); ++set) sets.push_back(set);
  return sets;
}

Result<ExprId> ObjectCompiler::other_names(uint32_t patterns) {
  if (names_.empty() && patterns_.empty() && name_constraints_.empty()) return writer_.plain_string();
  std::vector<RegularLanguage> more;
  more.reserve(name_constraints_.size());
  std::vector<RegularPart> parts = {{&*any_name_}, {&*declared_, true}};
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const bool is_matched = (patterns >> i & 1) != 0;
    if (is_matched || patterns == 0 || patterns_overlap_) parts.push_back({&patterns_[i], !is_matched});
  }
  for (const NameConstraints& constraints : name_constraints_) {
    if ((constraints.part.types & kStringType) == 0) return rules_.nothing();
    TRY_ASSIGN(const GrammarRules allowed, string_rules(document_, constraints.part));
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
  TRY_ASSIGN(const std::vector<uint32_t> sets, pattern_sets());
  if (is_closed(document_, part_)) return rules_.nothing();
  const GrammarRules any = single_rule_grammar([](GrammarRules& rules) {
    return rules.repeat(JsonWriter::canonical_char(CodePointSet::all(), rules), 0, kUnbounded);
  });
  TRY_ASSIGN(any_name_, RegularLanguage::compile(any, document_.budget()));
  TRY_ASSIGN(declared_, RegularLanguage::compile(declared_names(), document_.budget()));
  std::vector<ExprId> pairs;
  for (const uint32_t set : sets) {
    SchemaId schema = kAnySchema;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if ((set >> i & 1) != 0) schema = document_.conjunction(schema, part_.pattern_properties[i].second);
    }
    if (schema == kNoSchema) continue;
    TRY_ASSIGN(const ExprId name, other_names(set));
    pairs.push_back(rules_.sequence({name, writer_.colon(), compiler_.call(schema)}));
  }
  if (part_.other_properties != kNoSchema) {
    TRY_ASSIGN(const ExprId name, other_names(0));
    pairs.push_back(rules_.sequence({name, writer_.colon(), compiler_.call(part_.other_properties)}));
  }
  // Make a rule of the `"name": value` pairs of undeclared properties, because many states refer to it.
  const RuleId rule = rules_.add_rule("another property");
  rules_.define(rule, rules_.choice(pairs));
  return rules_.call(rule);
}

ExprId ObjectCompiler::pair_of(const Property& property) {
  return rules_.sequence(
      {rules_.bytes(json_to_string(Json(property.name))), writer_.colon(), compiler_.call(property.schema)});
}

// Number of properties written so far, counted only as far as minProperties and maxProperties require.
struct ObjectCompiler::Counter {
  explicit Counter(const SchemaPart& part)
      : bounds(part.needs_other_property ? CountBounds{.min = 1} : part.property_count),
        only_others(part.needs_other_property),
        last(!bounds.any()              ? 0
             : bounds.max == kUnbounded ? bounds.min
                                        : bounds.max) {}
  uint32_t n_counts() const { return last + 1; }
  uint32_t after_one(uint32_t c, bool is_other) const { return is_other || !only_others ? std::min(c + 1, last) : c; }
  bool may_add(uint32_t c) const { return bounds.max == kUnbounded || c < last; }
  bool may_end(uint32_t c) const { return c >= bounds.min; }

  const CountBounds bounds;
  const bool only_others;
  const uint32_t last;
};

// State (i, c): the next declared property is number i or a later one, and c properties were counted. Each (i, c) has
// three states: after a comma, where an undeclared property may come; before the declared properties; and after a
// property, where a bracket may end the object.
ExprId ObjectCompiler::in_order(ExprId others) {
  const Counter counter(part_);
  const uint32_t n = static_cast<uint32_t>(properties_.size());
  ExprGraph graph;
  graph.n_states = 3 * (n + 1) * counter.n_counts() + 2;
  const auto start = [&](uint32_t i, uint32_t c) { return 1 + (i * counter.n_counts() + c) * 3; };
  const auto before = [&](uint32_t i, uint32_t c) { return start(i, c) + 1; };
  const auto after = [&](uint32_t i, uint32_t c) { return start(i, c) + 2; };
  const uint32_t end = graph.n_states - 1;
  const ExprId open = rules_.sequence({rules_.bytes("{"), writer_.space()});
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("}")});
  graph.add_edge(0, open, start(0, 0));
  bool closable = true;  // true if none of the properties from number i on is required
  for (uint32_t i = n + 1; i-- > 0;) {
    if (i < n) closable &= !properties_[i].required;
    const ExprId pair = i < n ? pair_of(properties_[i]) : rules_.nothing();
    for (uint32_t c = 0; c < counter.n_counts(); ++c) {
      if (closable && counter.may_end(c)) graph.add_edge(after(i, c), close, end);
      if (!counter.may_add(c)) continue;
      graph.add_edge(after(i, c), writer_.comma(), start(i, c));
      graph.add_edge(start(i, c), others, after(i, counter.after_one(c, true)));
      graph.add_edge(start(i, c), rules_.empty(), before(i, c));
      if (i == n) continue;
      graph.add_edge(before(i, c), pair, after(i + 1, counter.after_one(c, false)));
      if (!properties_[i].required) graph.add_edge(before(i, c), rules_.empty(), before(i + 1, c));
    }
  }
  if (closable && counter.may_end(0)) graph.add_edge(0, rules_.sequence({open, rules_.bytes("}")}), end);
  graph.finals = {end};
  return rules_.graph(std::move(graph));
}

// Each pair (set, c) has two states, before and after a property: the properties of `set` were written, and c
// properties counted.
ExprId ObjectCompiler::in_any_order(ExprId others) {
  const Counter counter(part_);
  const uint32_t n_sets = 1u << properties_.size();
  ExprGraph graph;
  graph.n_states = 2 * n_sets * counter.n_counts() + 2;
  const auto before = [&](uint32_t set, uint32_t c) { return 1 + (set * counter.n_counts() + c) * 2; };
  const auto after = [&](uint32_t set, uint32_t c) { return before(set, c) + 1; };
  const uint32_t end = graph.n_states - 1;
  std::vector<ExprId> pairs;
  uint32_t required = 0;
  for (size_t i = 0; i < properties_.size(); ++i) {
    const RuleId rule = rules_.add_rule(std::string(properties_[i].name));  // one rule for all sets
    rules_.define(rule, pair_of(properties_[i]));
    pairs.push_back(rules_.call(rule));
    required |= static_cast<uint32_t>(properties_[i].required) << i;
  }
  const ExprId open = rules_.sequence({rules_.bytes("{"), writer_.space()});
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("}")});
  graph.add_edge(0, open, before(0, 0));
  if (required == 0 && counter.may_end(0)) graph.add_edge(0, rules_.sequence({open, rules_.bytes("}")}), end);
  for (uint32_t set = 0; set < n_sets; ++set) {
    for (uint32_t c = 0; c < counter.n_counts(); ++c) {
      if ((set & required) == required && counter.may_end(c)) graph.add_edge(after(set, c), close, end);
      if (!counter.may_add(c)) continue;
      graph.add_edge(after(set, c), writer_.comma(), before(set, c));
      graph.add_edge(before(set, c), others, after(set, counter.after_one(c, true)));
      for (size_t i = 0; i < pairs.size(); ++i) {
        if ((set >> i & 1) != 0) continue;
        graph.add_edge(before(set, c), pairs[i], after(set | 1u << i, counter.after_one(c, false)));
      }
    }
  }
  graph.finals = {end};
  return rules_.graph(std::move(graph));
}

}  // namespace ibid
