// Whether two schemas have no value in common, for oneOf. What cannot be told is taken as "they may".
#include <algorithm>

#include "sampling/grammar/schema_compiler.h"

namespace ibid {
namespace {

constexpr size_t kMostDepth = 4;

unsigned possible_types(const SchemaPart& part) {
  if (!part.values) return part.types;
  unsigned types = 0;
  for (const Json& value : *part.values) types |= type_of(value);
  return types & part.types;
}

bool has_required(const SchemaPart& part, const std::string& name) {
  return std::ranges::find(part.required, name) != part.required.end();
}

// A property that `a` requires, and `b` forbids or allows other values of.
Result<bool> differ_in_property(const SchemaDocument& document, const SchemaPart& a, const SchemaPart& b,
                                size_t depth) {
  for (const std::string& name : a.required) {
    const SubSchema* in_a = a.property(name);
    const SubSchema* in_b = b.property(name);
    if (in_b == nullptr && b.pattern_properties.empty() && is_false(b.other_properties)) return true;
    if (in_a == nullptr || in_b == nullptr || !has_required(b, name)) continue;
    TRY_ASSIGN(const SchemaPart value_a, read_schema(document, *in_a));
    TRY_ASSIGN(const SchemaPart value_b, read_schema(document, *in_b));
    TRY_ASSIGN(const bool disjoint, are_disjoint(document, value_a, value_b, depth + 1));
    if (disjoint) return true;
  }
  return false;
}

}  // namespace

Result<bool> are_disjoint(const SchemaDocument& document, const SchemaPart& a, const SchemaPart& b, size_t depth) {
  const unsigned shared = possible_types(a) & possible_types(b);
  if (shared == 0) return true;
  if (a.values && b.values) {
    if (a.values->size() * b.values->size() > 1'000'000) return false;
    return std::ranges::none_of(
        *a.values, [&](const Json& v) { return std::ranges::find(*b.values, v) != b.values->end(); });
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
  TRY_ASSIGN(const bool one_way, differ_in_property(document, a, b, depth));
  if (one_way) return true;
  return differ_in_property(document, b, a, depth);
}

}  // namespace ibid
