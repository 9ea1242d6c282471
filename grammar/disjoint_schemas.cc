// Whether two schemas have no value in common, for oneOf. What cannot be told is taken as "they may".
#include <algorithm>
#include <unordered_set>

#include "grammar/schema_compiler.h"

namespace ibid {
namespace {

constexpr size_t kMostDepth = 4;

unsigned possible_types(const SchemaPart& part) {
  if (!part.values) return part.types;
  unsigned types = 0;
  for (const ListedValue& value : *part.values) types |= type_of(*value.json);
  return types & part.types;
}

}  // namespace

// A property that `a` requires, and `b` forbids or allows other values of.
Result<bool> DisjointSchemas::differ_in_property(const Compared& a, const Compared& b, size_t depth) {
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

Result<bool> DisjointSchemas::values_differ(SchemaId a, SchemaId b, size_t depth) {
  const uint64_t key = uint64_t{std::min(a, b)} << 32 | std::max(a, b);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  TRY_ASSIGN(SchemaPart in_a, read_schema(document_, a));
  TRY_ASSIGN(SchemaPart in_b, read_schema(document_, b));
  TRY(document_.spend(4 * (in_a.size() + in_b.size()), a));
  TRY_ASSIGN(const bool disjoint, are_disjoint(Compared(std::move(in_a)), Compared(std::move(in_b)), depth));
  if (depth < kMostDepth) known_.emplace(key, disjoint);
  return disjoint;
}

Result<bool> DisjointSchemas::are_disjoint(const Compared& compared_a, const Compared& compared_b, size_t depth) {
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
