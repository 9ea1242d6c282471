#include "grammar/schema_compiler.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "grammar/byte_automaton.h"

namespace ibid {
namespace {

constexpr size_t kCombinationCost =
    5000;  // units of work for compiling one way to choose a branch of every anyOf and oneOf
constexpr size_t kMostChoiceDepth = 30;
constexpr size_t kMostExclusive = 200;
constexpr size_t kBytesOfProperty = 120;  // bytes for each property of a SchemaPart that is kept for comparisons
bool requires_impossible(const SchemaPart& part) {
  if (std::ranges::find(part.properties, kNoSchema, &SchemaPart::Named::value_type::second) == part.properties.end()) {
    return false;
  }
  const PropertyIndex index(part);
  return std::ranges::any_of(part.required, [&](std::string_view name) {
    const SchemaId* schema = index.find(name);
    return schema != nullptr && *schema == kNoSchema;
  });
}

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
  // There is nothing to merge: the part has only this choice.
  if (part.choices.size() == 1 && !part.choices[0].exclusive && part.is_unconstrained()) {
    std::vector<ExprId> branches;
    for (const SchemaId branch : part.choices[0].branches) branches.push_back(call(branch));
    return rules_.choice(branches);
  }
  return values_of(part, 0);
}

Result<ExprId> SchemaCompiler::values_of(const SchemaPart& part, size_t depth) {
  TRY(spend(kCombinationCost, part.schema));
  if (part.types == 0) return rules_.nothing();
  if (!part.choices.empty()) return chosen(part, depth);
  if (part.unevaluated_properties != kAnySchema || part.unevaluated_items != kAnySchema) {
    SchemaPart evaluated = part;
    TRY(apply_unevaluated(document_, evaluated));
    return values_of(evaluated, depth);
  }
  if (part.values) return listed(part);
  if (!part.names_outside.empty() && (part.types & kObjectType) != 0) return name_outside(part, depth);
  if (part.is_unconstrained()) return writer_.any_value();
  std::vector<ExprId> parts;
  if (part.types & kNullType) parts.push_back(rules_.bytes("null"));
  if (part.types & kBooleanType) {
    for (const Json& value : kBooleanValues) {
      if (!part.excludes({&value, document_.value_number(value)})) parts.push_back(writer_.literal(value));
    }
  }
  if (part.types & (kIntegerType | kFractionType)) {
    TRY_ASSIGN(const ExprId expr, numbers(part));
    parts.push_back(expr);
  }
  if (part.types & kStringType) {
    TRY_ASSIGN(const ExprId expr, string_values(document_, part, writer_));
    parts.push_back(expr);
  }
  if (part.types & kArrayType) {
    TRY_ASSIGN(const ExprId expr, ArrayCompiler(*this, part).compile());
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

// Expands the first choice (anyOf or oneOf) of the part: merges each of its branches with the rest of the part.
Result<ExprId> SchemaCompiler::chosen(SchemaPart part, size_t depth) {
  if (depth > kMostChoiceDepth) {
    return schema_error(ErrorCode::kLimitExceeded, document_.pointer_of(part.schema), "",
                        "choices are nested too deeply");
  }
  const SchemaPart::Choice choice = std::move(part.choices.front());
  part.choices.erase(part.choices.begin());
  std::vector<SchemaId> branches = choice.branches;
  if (choice.exclusive) TRY(exclude_others(part, choice, branches));
  const bool alone = part.is_unconstrained() && part.choices.empty();
  std::vector<ExprId> exprs;
  for (const SchemaId branch : branches) {
    TRY_ASSIGN(const ExprId expr, alone ? Result<ExprId>(call(branch)) : branch_of(part, branch, depth));
    exprs.push_back(expr);
  }
  return rules_.choice(exprs);
}

// Expands the first constraint "a property has a name outside of this set": one alternative for each declared property
// with such a name, and one for an undeclared property.
Result<ExprId> SchemaCompiler::name_outside(SchemaPart part, size_t depth) {
  const SchemaPart::NameOutside wanted = std::move(part.names_outside.front());
  part.names_outside.erase(part.names_outside.begin());
  std::unordered_set<std::string_view> names(wanted.names.begin(), wanted.names.end());
  const auto is_outside = [&](std::string_view name) -> Result<bool> {
    if (names.contains(name)) return false;
    for (const std::string_view pattern : wanted.patterns) {
      TRY_ASSIGN(const bool matches, document_.patterns().finds(pattern, name));
      if (matches) return false;
    }
    return true;
  };
  for (const std::string_view name : part.required) {
    TRY_ASSIGN(const bool satisfied, is_outside(name));
    if (satisfied) return values_of(part, depth + 1);
  }
  std::vector<ExprId> exprs;
  SchemaPart others = part;
  others.types &= ~kObjectType;
  TRY_ASSIGN(const ExprId not_objects, values_of(others, depth + 1));
  exprs.push_back(not_objects);
  part.types &= kObjectType;
  for (const auto& [name, schema] : part.properties) {
    TRY_ASSIGN(const bool counts, is_outside(name));
    if (!counts || schema == kNoSchema) continue;
    SchemaPart with = part;
    with.required.push_back(name);
    TRY_ASSIGN(const ExprId expr, values_of(with, depth + 1));
    exprs.push_back(expr);
  }
  const bool may_have_others = !ObjectCompiler::is_closed(document_, part);
  if (may_have_others) {
    if (!wanted.patterns.empty() || !part.pattern_properties.empty() || part.property_count.any()) {
      return schema_error(
          ErrorCode::kUnsupported, document_.pointer_of(part.schema), "additionalProperties",
          "not supported in a negated schema together with patternProperties or limits on the number of properties");
    }
    // Declare also the names of the set itself. Then every undeclared property has a name outside of the set.
    for (const auto& [name, schema] : part.properties) names.erase(name);
    for (const std::string_view name : wanted.names) {
      if (names.erase(name) > 0) part.properties.emplace_back(name, part.other_properties);
    }
    part.needs_other_property = true;
    TRY_ASSIGN(const ExprId expr, values_of(part, depth + 1));
    exprs.push_back(expr);
  }
  return rules_.choice(exprs);
}

Result<ExprId> SchemaCompiler::branch_of(const SchemaPart& part, SchemaId branch, size_t depth) {
  TRY_ASSIGN(const SchemaPart own, read_schema_to_merge(document_, branch));
  TRY_ASSIGN(SchemaPart merged, merge_parts(document_, part, own));
  if ((merged.types & kObjectType) != 0 && requires_impossible(merged)) merged.types &= ~kObjectType;
  return values_of(merged, depth + 1);
}

// Adds to each branch of oneOf the negation of those other branches that may have values in common with it.
Status SchemaCompiler::exclude_others(const SchemaPart& part, const SchemaPart::Choice& choice,
                                      std::vector<SchemaId>& merged_branches) {
  const std::string place = pointer_of_text(document_, choice.place, "oneOf");
  if (choice.branches.size() > kMostExclusive) {
    return schema_error(ErrorCode::kLimitExceeded, place, "",
                        "more than " + std::to_string(kMostExclusive) + " branches to compare with each other");
  }
  std::deque<DisjointnessChecker::Compared> branches;
  HeldBytes held(document_.budget());
  size_t n_held = 0;
  for (const SchemaId branch : choice.branches) {
    TRY_ASSIGN(const SchemaPart own, read_schema_to_merge(document_, branch));
    TRY_ASSIGN(SchemaPart merged, merge_parts(document_, part, own));
    n_held += merged.size() * kBytesOfProperty;
    if (!held.set(n_held)) return document_.budget().status("schema: " + place);
    branches.emplace_back(std::move(merged));
  }
  DisjointnessChecker compare(document_);
  for (size_t i = 0; i < branches.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      TRY_ASSIGN(const bool disjoint, compare.are_disjoint(branches[j], branches[i]));
      if (disjoint) continue;
      for (const auto& [one, other] : {std::pair(i, j), std::pair(j, i)}) {
        const Result<SchemaId> negation = document_.negation_of(choice.branches[other]);
        if (negation.status().code() == ErrorCode::kUnsupported) {
          return schema_error(ErrorCode::kUnsupported, place, "",
                              "branches " + std::to_string(j) + " and " + std::to_string(i) +
                                  " may overlap, which oneOf forbids, and the grammar cannot tell where (" +
                                  negation.status().message() + "); use anyOf");
        }
        TRY(negation.status());
        merged_branches[one] = document_.conjunction(merged_branches[one], *negation);
      }
    }
  }
  return {};
}

// Returns the values of enum and const that the other keywords of the schema allow too.
Result<ExprId> SchemaCompiler::listed(const SchemaPart& part) {
  std::vector<ExprId> exprs;
  for (const ListedValue& value : *part.values) {
    TRY_ASSIGN(const bool allowed, ValueChecker(document_).allows(part, value));
    if (allowed) exprs.push_back(writer_.literal(*value.json, (part.types & kFractionType) == 0));
  }
  return rules_.choice(exprs);
}

Result<ExprId> SchemaCompiler::numbers(const SchemaPart& part) {
  NumberBounds bounds = part.numbers;
  bounds.integer = (part.types & kFractionType) == 0;
  bounds.fraction = (part.types & kIntegerType) == 0;
  for (const ListedValue& value : part.excluded) {
    if (value.json->is_number()) bounds.excluded.push_back(decimal_of(*value.json));
  }
  if (!bounds.any()) return bounds.integer ? writer_.integer() : writer_.number();
  if (bounds.clearly_empty()) return rules_.nothing();
  Result<ExprId> range = number_range(bounds, format_.strict, rules_, document_.budget());
  if (range.ok()) return range;
  return schema_error(range.status().code(), document_.pointer_of(part.schema), "", range.status().message());
}

Result<Grammar> compile_parsed_json_schema(const Json& schema, const JsonFormat& format, CompileBudget* budget) {
  CompileBudget own;
  CompileBudget& its = budget != nullptr ? *budget : own;
  TRY_ASSIGN(SchemaDocument document,
             SchemaDocument::create(schema, format.strict, format.for_answers && !format.strict, its));
  GrammarRules rules;
  TRY(SchemaCompiler(document, rules, format).compile(document.root()));
  TRY(its.status("schema"));
  return make_grammar(std::move(rules), "schema", false, document.take_ignored());
}

Result<Grammar> compile_json_schema(std::string_view schema, const JsonFormat& format, CompileBudget* budget) {
  TRY_ASSIGN(const Json parsed, parse_json(schema, "schema", kSchemaLimits));
  return compile_parsed_json_schema(parsed, format, budget);
}

// --- DisjointnessChecker: checks for oneOf whether it is certain that two schemas have no value in common.

namespace {

constexpr size_t kMostDepth = 4;

unsigned possible_types(const SchemaPart& part) {
  if (!part.values) return part.types;
  unsigned types = 0;
  for (const ListedValue& value : *part.values) types |= type_of(*value.json);
  return types & part.types;
}

}  // namespace

// True if `a` requires a property that `b` forbids, or both require a property for which no value satisfies both.
Result<bool> DisjointnessChecker::differ_in_property(const Compared& a, const Compared& b, size_t depth) {
  const bool closed = b.part.pattern_properties.empty() && b.part.other_properties == kNoSchema;
  for (const std::string_view name : a.part.required) {
    TRY(document_.spend(1, a.part.schema));
    const SchemaId* in_a = a.index.find(name);
    const SchemaId* in_b = b.index.find(name);
    if (in_b == nullptr && closed) return true;
    if (in_a == nullptr || in_b == nullptr || *in_a == *in_b || !b.index.requires_name(name)) continue;
    TRY_ASSIGN(const bool disjoint, values_differ(*in_a, *in_b, depth + 1));
    if (disjoint) return true;
  }
  return false;
}

Result<bool> DisjointnessChecker::values_differ(SchemaId a, SchemaId b, size_t depth) {
  const uint64_t key = uint64_t{std::min(a, b)} << 32 | std::max(a, b);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  TRY_ASSIGN(SchemaPart in_a, read_schema(document_, a));
  TRY_ASSIGN(SchemaPart in_b, read_schema(document_, b));
  TRY(document_.spend(4 * (in_a.size() + in_b.size()), a));
  TRY_ASSIGN(const bool disjoint, are_disjoint(Compared(std::move(in_a)), Compared(std::move(in_b)), depth));
  if (depth < kMostDepth) known_.emplace(key, disjoint);
  return disjoint;
}

Result<bool> DisjointnessChecker::are_disjoint(const Compared& compared_a, const Compared& compared_b, size_t depth) {
  const SchemaPart& a = compared_a.part;
  const SchemaPart& b = compared_b.part;
  const size_t n_values = (a.values ? a.values->size() : 0) + (b.values ? b.values->size() : 0);
  TRY(document_.spend(10 + 4 * n_values, a.schema));
  const unsigned shared = possible_types(a) & possible_types(b);
  if (shared == 0) return true;
  if (a.values && b.values) {
    std::unordered_set<uint32_t> in_a;
    for (const ListedValue& value : *a.values) in_a.insert(value.number);
    return std::ranges::none_of(*b.values, [&](const ListedValue& value) { return in_a.contains(value.number); });
  }
  for (const auto& [listing, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!listing->values || other->excluded.empty()) continue;
    TRY(document_.spend(listing->values->size() * other->excluded.size() / 16, a.schema));
    const auto is_excluded = [part = other](const ListedValue& value) { return part->excludes(value); };
    if (std::ranges::all_of(*listing->values, is_excluded)) return true;
  }
  if ((shared & ~(kIntegerType | kFractionType)) == 0) {
    NumberBounds met = a.numbers;
    if (b.numbers.min) met.raise_min(*b.numbers.min, b.numbers.above_min);
    if (b.numbers.max) met.lower_max(*b.numbers.max, b.numbers.below_max);
    return met.clearly_empty();
  }
  if (shared == kStringType) return std::max(a.length.min, b.length.min) > std::min(a.length.max, b.length.max);
  if (shared == kArrayType) {
    return std::max(a.item_count.min, b.item_count.min) > std::min(a.item_count.max, b.item_count.max);
  }
  if (shared != kObjectType || depth >= kMostDepth) return false;
  TRY_ASSIGN(const bool one_way, differ_in_property(compared_a, compared_b, depth));
  if (one_way) return true;
  return differ_in_property(compared_b, compared_a, depth);
}

}  // namespace ibid
