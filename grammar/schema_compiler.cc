#include "grammar/schema_compiler.h"

#include <algorithm>

#include "grammar/grammar_parts.h"
#include "grammar/object_compiler.h"

namespace ibid {
namespace {

constexpr size_t kWayCost = 5000;  // of one way through choices that are merged, with the rules that it becomes
constexpr size_t kMostChoiceDepth = 30;
constexpr size_t kMostExclusive = 200;
constexpr size_t kBytesOfProperty = 120;  // of a schema that is kept to be compared
constexpr JsonLimits kSchemaLimits = {.max_bytes = 4'000'000, .max_depth = 128, .max_values = 200'000};

}  // namespace

SchemaCompiler::SchemaCompiler(SchemaDocument& document, GrammarRules& rules, const JsonFormat& format)
    : document_(document), rules_(rules), format_(format), writer_(rules_, format) {}

Status SchemaCompiler::compile(SchemaId root, unsigned types) {
  if (types == kAllTypes) {
    call(root);
  } else {
    const RuleId rule = rules_.add_rule("values of some types");
    TRY_ASSIGN(SchemaPart part, read_schema(document_, root));
    part.types &= types;
    TRY_ASSIGN(const ExprId expr, values_of(part, 0));
    rules_.define(rule, expr);
  }
  while (!todo_.empty()) {
    const auto [rule, schema] = todo_.front();
    todo_.pop_front();
    TRY(spend(1, schema));
    TRY_ASSIGN(const ExprId expr, values_of(schema));
    rules_.define(rule, expr);
  }
  return spend(0, root);
}

Status SchemaCompiler::spend(size_t n, SchemaId where) {
  TRY(document_.spend(n, where));
  if (!rules_.full()) return {};
  return schema_error(ErrorCode::kLimitExceeded, document_.pointer_of(where), "", "the schema takes too much memory");
}

ExprId SchemaCompiler::call(SchemaId schema) {
  const auto [found, is_new] = known_.emplace(schema, 0);
  if (is_new) {
    found->second = rules_.add_rule(document_.pointer_of(schema));
    todo_.emplace_back(found->second, schema);
  }
  return rules_.call(found->second);
}

Result<ExprId> SchemaCompiler::values_of(SchemaId schema) {
  TRY_ASSIGN(SchemaPart part, read_schema(document_, schema));
  if (part.choices.size() == 1 && !part.choices[0].exclusive && part.asks_nothing()) {  // nothing to be merged
    std::vector<ExprId> branches;
    for (const SchemaId branch : part.choices[0].branches) branches.push_back(call(branch));
    return rules_.choice(branches);
  }
  return values_of(part, 0);
}

Result<ExprId> SchemaCompiler::values_of(const SchemaPart& part, size_t depth) {
  TRY(spend(kWayCost, part.schema));
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
    TRY_ASSIGN(const ExprId expr, string_values(document_, part, writer_));
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

// Merges each branch of the first choice with everything else, one at a time.
Result<ExprId> SchemaCompiler::chosen(SchemaPart part, size_t depth) {
  if (depth > kMostChoiceDepth) {
    return schema_error(ErrorCode::kLimitExceeded, document_.pointer_of(part.schema), "",
                        "choices are nested too deeply");
  }
  const SchemaPart::Choice choice = std::move(part.choices.front());
  part.choices.erase(part.choices.begin());
  if (choice.exclusive) TRY(check_exclusive(part, choice));
  const bool alone = part.asks_nothing() && part.choices.empty();
  std::vector<ExprId> exprs;
  for (const SchemaId branch : choice.branches) {
    TRY_ASSIGN(const ExprId expr, alone ? Result<ExprId>(call(branch)) : branch_of(part, branch, depth));
    exprs.push_back(expr);
  }
  return rules_.choice(exprs);
}

Result<ExprId> SchemaCompiler::branch_of(const SchemaPart& part, SchemaId branch, size_t depth) {
  TRY_ASSIGN(const SchemaPart own, read_schema(document_, branch));
  TRY_ASSIGN(const SchemaPart merged, merge_parts(document_, part, own));
  return values_of(merged, depth + 1);
}

Status SchemaCompiler::check_exclusive(const SchemaPart& part, const SchemaPart::Choice& choice) {
  const std::string place = pointer_of_text(document_, choice.place, "oneOf");
  if (choice.branches.size() > kMostExclusive) {
    return schema_error(ErrorCode::kLimitExceeded, place, "",
                        "more than " + std::to_string(kMostExclusive) + " branches to be compared with each other");
  }
  std::deque<DisjointSchemas::Compared> branches;
  HeldBytes held(document_.budget());
  size_t n_held = 0;
  for (const SchemaId branch : choice.branches) {
    TRY_ASSIGN(const SchemaPart own, read_schema(document_, branch));
    TRY_ASSIGN(SchemaPart merged, merge_parts(document_, part, own));
    n_held += merged.size() * kBytesOfProperty;
    if (!held.set(n_held)) return document_.budget().status("schema: " + place);
    branches.emplace_back(std::move(merged));
  }
  DisjointSchemas compare(document_);
  for (size_t i = 0; i < branches.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      TRY_ASSIGN(const bool disjoint, compare.are_disjoint(branches[j], branches[i]));
      if (disjoint) continue;
      return schema_error(ErrorCode::kUnsupported, place, "",
                          "branches " + std::to_string(j) + " and " + std::to_string(i) +
                              " may both accept a value, which oneOf forbids and a grammar cannot tell; anyOf can be "
                              "said");
    }
  }
  return {};
}

// enum and const: those of the values that everything else allows, too.
Result<ExprId> SchemaCompiler::listed(const SchemaPart& part) {
  std::vector<ExprId> exprs;
  for (const ListedValue& value : *part.values) {
    TRY_ASSIGN(const bool allowed, allows(part, *value.json));
    if (allowed) exprs.push_back(writer_.literal(*value.json, (part.types & kFractionType) == 0));
  }
  return rules_.choice(exprs);
}

Result<bool> SchemaCompiler::allows(const SchemaPart& part, const Json& value) const {
  const unsigned type = type_of(value);
  if ((part.types & type) == 0) return false;
  if (type == kStringType) return string_allowed(document_, part, value.get<std::string>());
  if (type == kIntegerType || type == kFractionType) {
    TRY(document_.spend(1 + 4 * part.numbers.multiples.size(), part.schema));
    return part.numbers.allows(decimal_of(value));
  }
  if ((type == kArrayType && part.asks_of_arrays()) || (type == kObjectType && part.asks_of_objects())) {
    return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part.schema), "enum",
                        "an array or object beside other keywords that ask something of it");
  }
  return true;
}

Result<ExprId> SchemaCompiler::numbers(const SchemaPart& part) {
  NumberBounds bounds = part.numbers;
  bounds.integer = (part.types & kFractionType) == 0;
  if (!bounds.any()) return bounds.integer ? writer_.integer() : writer_.number();
  if (bounds.clearly_empty()) return rules_.nothing();
  Result<ExprId> range = number_range(bounds, rules_, document_.budget());
  if (range.ok()) return range;
  return schema_error(range.status().code(), document_.pointer_of(part.schema), "", range.status().message());
}

Result<Grammar> compile_parsed_json_schema(const Json& schema, const JsonFormat& format, CompileBudget* budget) {
  CompileBudget own;
  CompileBudget& its = budget != nullptr ? *budget : own;
  TRY_ASSIGN(SchemaDocument document, SchemaDocument::create(schema, its));
  GrammarRules rules;
  TRY(SchemaCompiler(document, rules, format).compile(document.root()));
  TRY(its.status("schema"));
  return make_grammar(std::move(rules), "schema");
}

Result<Grammar> compile_json_schema(std::string_view schema, const JsonFormat& format, CompileBudget* budget) {
  TRY_ASSIGN(const Json parsed, parse_json(schema, "schema", kSchemaLimits));
  return compile_parsed_json_schema(parsed, format, budget);
}

}  // namespace ibid
