#include "sampling/grammar/schema_compiler.h"

#include <algorithm>

#include "sampling/grammar/grammar_parts.h"
#include "sampling/grammar/object_compiler.h"

namespace ibid {
namespace {

// Schemas are copied and printed where they are merged; what all of that may add up to.
constexpr size_t kMostSpent = 20'000'000;
constexpr size_t kMergeCost = 5000;  // of one way through choices that are merged
constexpr size_t kMostChoiceDepth = 30;
constexpr size_t kMostExclusive = 200;
constexpr JsonLimits kSchemaLimits = {.max_bytes = 4'000'000, .max_depth = 128, .max_values = 200'000};

}  // namespace

SchemaCompiler::SchemaCompiler(const SchemaDocument& document, GrammarRules& rules, const JsonFormat& format)
    : document_(document), rules_(rules), format_(format), writer_(rules_, format) {}

Status SchemaCompiler::compile(const SubSchema& sub) {
  call(sub);
  while (!todo_.empty()) {
    const auto [rule, schema] = std::move(todo_.front());
    todo_.pop_front();
    TRY(spend(0, schema.pointer));
    TRY_ASSIGN(const ExprId expr, values_of(schema));
    rules_.define(rule, expr);
  }
  return {};
}

Status SchemaCompiler::spend(size_t n, const std::string& pointer) {
  n_spent_ += n;
  if (n_spent_ <= kMostSpent && !rules_.full()) return {};
  return schema_error(ErrorCode::kLimitExceeded, pointer, "", "the schema takes too much memory or time");
}

ExprId SchemaCompiler::call(const SubSchema& sub) {
  std::string text = json_to_string(sub.schema);
  n_spent_ += text.size();
  const auto [found, is_new] = known_.emplace(std::move(text), 0);
  if (is_new) {
    found->second = rules_.add_rule(sub.pointer);
    todo_.emplace_back(found->second, sub);
  }
  return rules_.call(found->second);
}

Result<ExprId> SchemaCompiler::values_of(const SubSchema& sub) {
  TRY_ASSIGN(SchemaPart part, read_schema(document_, sub));
  if (part.choices.size() == 1 && !part.choices[0].exclusive && part.asks_nothing()) {  // nothing to be merged
    std::vector<ExprId> branches;
    for (const SubSchema& branch : part.choices[0].branches) branches.push_back(call(branch));
    return rules_.choice(branches);
  }
  return values_of(part, 0);
}

Result<ExprId> SchemaCompiler::values_of(const SchemaPart& part, size_t depth) {
  TRY(spend(kMergeCost, part.pointer));
  if (!part.choices.empty()) return chosen(part, depth);
  if (part.values) return listed(part);
  if (part.asks_nothing()) return writer_.any_value();
  std::vector<ExprId> parts;
  if (part.types & kNullType) parts.push_back(rules_.bytes("null"));
  if (part.types & kBooleanType) parts.insert(parts.end(), {rules_.bytes("true"), rules_.bytes("false")});
  if (part.types & (kIntegerType | kFractionType)) {
    TRY_ASSIGN(const ExprId expr, numbers(part));
    parts.push_back(expr);
  }
  if (part.types & kStringType) {
    TRY_ASSIGN(const ExprId expr, string_values(part, writer_));
    parts.push_back(expr);
  }
  if (part.types & kArrayType) {
    TRY_ASSIGN(const ExprId expr, array(part));
    parts.push_back(expr);
  }
  if (part.types & kObjectType) {
    if (part.asks_of_objects()) {
      TRY_ASSIGN(const ExprId expr, ObjectCompiler(*this, part).compile());
      parts.push_back(expr);
    } else {
      parts.push_back(writer_.any_object());
    }
  }
  return rules_.choice(parts);
}

// Merges each branch of the first choice with everything else.
Result<ExprId> SchemaCompiler::chosen(SchemaPart part, size_t depth) {
  if (depth > kMostChoiceDepth) {
    return schema_error(ErrorCode::kLimitExceeded, part.pointer, "", "choices are nested too deeply");
  }
  const SchemaPart::Choice choice = std::move(part.choices.front());
  part.choices.erase(part.choices.begin());
  std::vector<SchemaPart> branches;
  std::vector<ExprId> exprs;
  for (const SubSchema& branch : choice.branches) {
    TRY_ASSIGN(const SchemaPart own, read_schema(document_, branch));
    TRY_ASSIGN(SchemaPart merged, merge_parts(part, own));
    TRY(spend(json_to_string(branch.schema).size(), branch.pointer));
    branches.push_back(std::move(merged));
  }
  if (choice.exclusive && branches.size() > kMostExclusive) {
    return schema_error(ErrorCode::kLimitExceeded, choice.pointer, "",
                        "more than " + std::to_string(kMostExclusive) + " branches to be compared with each other");
  }
  for (size_t i = 0; choice.exclusive && i < branches.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      TRY_ASSIGN(const bool disjoint, are_disjoint(document_, branches[j], branches[i]));
      if (disjoint) continue;
      return schema_error(ErrorCode::kUnsupported, choice.pointer, "",
                          "branches " + std::to_string(j) + " and " + std::to_string(i) +
                              " may both accept a value, which oneOf forbids and a grammar cannot tell; anyOf can be "
                              "said");
    }
  }
  const bool alone = part.asks_nothing() && part.choices.empty();
  for (size_t i = 0; i < branches.size(); ++i) {
    if (alone) {
      exprs.push_back(call(choice.branches[i]));
      continue;
    }
    TRY_ASSIGN(const ExprId expr, values_of(branches[i], depth + 1));
    exprs.push_back(expr);
  }
  return rules_.choice(exprs);
}

// enum and const: those of the values that everything else allows, too.
Result<ExprId> SchemaCompiler::listed(const SchemaPart& part) {
  std::vector<ExprId> exprs;
  for (const Json& value : *part.values) {
    TRY_ASSIGN(const bool allowed, allows(part, value));
    if (allowed) exprs.push_back(writer_.literal(value));
  }
  return rules_.choice(exprs);
}

Result<bool> SchemaCompiler::allows(const SchemaPart& part, const Json& value) const {
  const unsigned type = type_of(value);
  if ((part.types & type) == 0) return false;
  if (type == kStringType) return string_allowed(part, value.get<std::string>());
  if (type == kIntegerType || type == kFractionType) return part.numbers.allows(decimal_of(value));
  if ((type == kArrayType && part.asks_of_arrays()) || (type == kObjectType && part.asks_of_objects())) {
    return schema_error(ErrorCode::kUnsupported, part.pointer, "enum",
                        "an array or object beside other keywords that ask something of it");
  }
  return true;
}

Result<ExprId> SchemaCompiler::numbers(const SchemaPart& part) {
  NumberBounds bounds = part.numbers;
  bounds.integer = (part.types & kFractionType) == 0;
  if (!bounds.any()) return bounds.integer ? writer_.integer() : writer_.number();
  if (bounds.clearly_empty()) return rules_.nothing();
  Result<ExprId> range = number_range(bounds, rules_);
  if (range.ok()) return range;
  return schema_error(range.status().code(), part.pointer, "", range.status().message());
}

// [, the first items with a schema of their own, then any number of others.
Result<ExprId> SchemaCompiler::array(const SchemaPart& part) {
  if (!part.asks_of_arrays()) return writer_.any_array();
  const CountBounds& count = part.item_count;
  if (count.min > count.max) return rules_.nothing();
  const size_t n_first = std::min<size_t>(part.first_items.size(), count.max);
  ExprGraph graph;  // state i: behind i items
  for (size_t i = 0; i < n_first; ++i) {
    const ExprId item = call(part.first_items[i]);
    const ExprId label = i == 0 ? item : rules_.sequence({writer_.comma(), item});
    graph.add_edge(static_cast<uint32_t>(i), label, graph.add_state());
  }
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("]")});
  const uint32_t end = graph.add_state();
  graph.finals = {end};
  for (uint32_t i = count.min; i < n_first; ++i) graph.add_edge(i, i == 0 ? rules_.bytes("]") : close, end);
  if (n_first < part.first_items.size() || n_first == count.max) {
    const ExprId label = n_first == 0 ? rules_.bytes("]") : close;
    if (count.min <= n_first) graph.add_edge(static_cast<uint32_t>(n_first), label, end);
  } else {
    const ExprId item = call(part.other_items);
    const ExprId more = rules_.sequence({writer_.comma(), item});
    const auto first = static_cast<uint32_t>(n_first);
    const uint32_t least = count.min > first ? count.min - first : 0;
    const uint32_t most = count.max == kUnbounded ? kUnbounded : count.max - first;
    if (first > 0) {
      graph.add_edge(first, rules_.sequence({rules_.repeat(more, least, most), close}), end);
    } else {
      const ExprId rest = rules_.repeat(more, least == 0 ? 0 : least - 1, most == kUnbounded ? most : most - 1);
      graph.add_edge(first, rules_.sequence({item, rest, close}), end);
      if (least == 0) graph.add_edge(first, rules_.bytes("]"), end);
    }
  }
  return rules_.sequence({rules_.bytes("["), writer_.space(), rules_.graph(std::move(graph))});
}

Result<Grammar> compile_parsed_json_schema(const Json& schema, const JsonFormat& format) {
  TRY_ASSIGN(const SchemaDocument document, SchemaDocument::create(schema));
  GrammarRules rules;
  TRY(SchemaCompiler(document, rules, format).compile({schema, "#"}));
  return make_grammar(std::move(rules), "schema");
}

Result<Grammar> compile_json_schema(std::string_view schema, const JsonFormat& format) {
  TRY_ASSIGN(const Json parsed, parse_json(schema, "schema", kSchemaLimits));
  return compile_parsed_json_schema(parsed, format);
}

}  // namespace ibid
