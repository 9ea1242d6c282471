// ArrayCompiler: compiles the arrays that a schema allows to a grammar expression.
#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "grammar/grammar_rules.h"
#include "grammar/schema_compiler.h"

namespace ibid {
namespace {

// Maximum number of different values of items with uniqueItems: each subset of these values is a state.
constexpr size_t kMostDifferent = 8;
constexpr size_t kMostOrderedStates = 50'000;
constexpr size_t kMostCountedItems = 2000;
constexpr uint32_t kMostContained = 20;

SchemaId item_at(const SchemaPart& part, size_t i) {
  return i < part.first_items.size() ? part.first_items[i] : part.other_items;
}

}  // namespace

// Returns an expression for arrays: the first items, each with a schema of its own (prefixItems), then any number of
// other items.
Result<ExprId> ArrayCompiler::compile() {
  if (!part_.asks_of_arrays()) return writer_.any_array();
  const CountBounds& count = part_.item_count;
  if (count.min > count.max) return rules_.nothing();
  if (part_.unique && !part_.contained.empty()) {
    return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part_.schema), "uniqueItems",
                        "not supported together with contains");
  }
  if (part_.unique && count.max > 1) return compile_unique();
  if (!part_.contained.empty()) return that_contains();
  const size_t n_first = std::min<size_t>(part_.first_items.size(), count.max);
  ExprGraph graph;  // state i is reached after i items
  for (size_t i = 0; i < n_first; ++i) {
    const ExprId item = compiler_.call(part_.first_items[i]);
    const ExprId label = i == 0 ? item : rules_.sequence({writer_.comma(), item});
    graph.add_edge(static_cast<uint32_t>(i), label, graph.add_state());
  }
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("]")});
  const uint32_t end = graph.add_state();
  graph.finals = {end};
  for (uint32_t i = count.min; i < n_first; ++i) graph.add_edge(i, i == 0 ? rules_.bytes("]") : close, end);
  if (n_first < part_.first_items.size() || n_first == count.max) {
    const ExprId label = n_first == 0 ? rules_.bytes("]") : close;
    if (count.min <= n_first) graph.add_edge(static_cast<uint32_t>(n_first), label, end);
  } else {
    const ExprId item = compiler_.call(part_.other_items);
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

// Compiles `uniqueItems` for items with few possible values: each set of values that were already written is a state.
Result<ExprId> ArrayCompiler::compile_unique() {
  const auto refused = [&](std::string_view what) {
    return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part_.schema), "uniqueItems", what);
  };
  std::vector<ListedValue> values;  // all values that some item may have
  std::vector<uint32_t> allowed;    // by position in the array: bit k is set if values[k] is allowed there
  for (size_t i = 0; i < std::min<size_t>(part_.item_count.max, kMostDifferent + 1); ++i) {
    TRY_ASSIGN(const auto listed, few_values(item_at(part_, i)));
    if (!listed) return refused("only supported for items with few values (enum, const, boolean, null)");
    if (listed->size() > kMostDifferent && part_.first_items.empty()) return in_order(*listed);
    allowed.push_back(0);
    for (const ListedValue& value : *listed) {
      const auto found = std::ranges::find(values, value.number, &ListedValue::number);
      allowed.back() |= uint32_t{1} << (found - values.begin());
      if (found == values.end()) values.push_back(value);
      if (values.size() > kMostDifferent) {
        return refused("not supported for items with more than " + std::to_string(kMostDifferent) + " values");
      }
    }
  }
  std::vector<ExprId> texts;
  for (const ListedValue& value : values) texts.push_back(writer_.literal(*value.json, value.is_integer));
  ExprGraph graph;
  graph.n_states = (1u << values.size()) + 1;
  const uint32_t end = graph.n_states - 1;
  graph.finals = {end};
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("]")});
  for (uint32_t set = 0; set < end; ++set) {
    const auto n = static_cast<uint32_t>(std::popcount(set));
    const bool may_close = n >= part_.item_count.min && n <= part_.item_count.max;
    if (may_close) graph.add_edge(set, n == 0 ? rules_.bytes("]") : close, end);
    for (uint32_t i = 0; i < values.size() && n < allowed.size(); ++i) {
      if ((set >> i & 1) != 0 || (allowed[n] >> i & 1) == 0) continue;
      graph.add_edge(set, n == 0 ? texts[i] : rules_.sequence({writer_.comma(), texts[i]}), set | 1u << i);
    }
  }
  return rules_.sequence({rules_.bytes("["), writer_.space(), rules_.graph(std::move(graph))});
}

// If unique items have many possible values, the grammar requires the order in which the schema lists the values. State
// (i, c): c items were written, and the next item must be value number i of the list or a later one.
Result<ExprId> ArrayCompiler::in_order(const std::vector<ListedValue>& values) {
  const CountBounds& count = part_.item_count;
  const auto n = static_cast<uint32_t>(values.size());
  // All counts of at least `last` share the states of `last`.
  const uint32_t last = count.max < n ? count.max : std::min(count.min, n);
  const uint64_t n_states = 2ull * (n + 1) * (last + 1) + 2;
  if (n_states > kMostOrderedStates) {
    return schema_error(ErrorCode::kLimitExceeded, document_.pointer_of(part_.schema), "uniqueItems",
                        "too many values and counts of items");
  }
  if (count.min > n) return rules_.nothing();
  TRY(document_.spend(4 * n_states, part_.schema));
  ExprGraph graph;
  graph.n_states = static_cast<uint32_t>(n_states);
  const auto before = [&](uint32_t i, uint32_t c) { return 1 + (i * (last + 1) + c) * 2; };
  const auto after = [&](uint32_t i, uint32_t c) { return before(i, c) + 1; };
  const uint32_t end = graph.n_states - 1;
  graph.finals = {end};
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("]")});
  graph.add_edge(0, rules_.empty(), before(0, 0));
  if (count.min == 0) graph.add_edge(0, rules_.bytes("]"), end);
  for (uint32_t i = 0; i <= n; ++i) {
    const ExprId text = i < n ? writer_.literal(*values[i].json, values[i].is_integer) : rules_.nothing();
    for (uint32_t c = 0; c <= last; ++c) {
      if (c >= count.min) graph.add_edge(after(i, c), close, end);
      if (i == n || (c == last && count.max < n)) continue;
      graph.add_edge(after(i, c), writer_.comma(), before(i, c));
      graph.add_edge(before(i, c), text, after(i + 1, std::min(c + 1, last)));
      graph.add_edge(before(i, c), rules_.empty(), before(i + 1, c));
    }
  }
  return rules_.sequence({rules_.bytes("["), writer_.space(), rules_.graph(std::move(graph))});
}

// Returns the values of a schema that accepts only a few values; nullopt for other schemas.
Result<std::optional<std::vector<ListedValue>>> ArrayCompiler::few_values(SchemaId schema) {
  static const Json kNull;
  TRY_ASSIGN(const SchemaPart part, read_schema(document_, schema));
  if (!part.choices.empty()) return std::optional<std::vector<ListedValue>>();
  std::vector<ListedValue> out;
  if (part.values) {
    for (const ListedValue& value : *part.values) {
      TRY_ASSIGN(const bool is_allowed, ValueChecker(document_).allows(part, value));
      if (!is_allowed) continue;
      out.push_back(value);
      out.back().is_integer = (part.types & kFractionType) == 0;
    }
    return std::optional(out);
  }
  if ((part.types & ~(kNullType | kBooleanType)) != 0) return std::optional<std::vector<ListedValue>>();
  const auto add = [&](const Json& value) {
    const ListedValue listed{&value, document_.value_number(value)};
    if (!part.excludes(listed)) out.push_back(listed);
  };
  if (part.types & kNullType) add(kNull);
  if (part.types & kBooleanType) add(kBooleanValues[0]), add(kBooleanValues[1]);
  return std::optional(out);
}

// Builds a graph with the states (c, f): c items were written (counted only as far as minItems and maxItems require),
// and f of them match the schema of `contains`. Without maxContains f is only a lower bound: a matching item may also
// leave f unchanged. So the negation of the schema is not needed.
Result<ExprId> ArrayCompiler::that_contains() {
  const CountBounds& count = part_.item_count;
  const size_t n_first = part_.first_items.size();
  const size_t last = count.max != kUnbounded ? count.max : std::max<size_t>(count.min, n_first);
  const SchemaPart::Contained& wanted = part_.contained.front();
  const bool has_most = wanted.most != kUnbounded;
  const uint32_t most_matches = has_most ? wanted.most : wanted.least;
  if (part_.contained.size() > 1 || last > kMostCountedItems || std::max(most_matches, wanted.least) > kMostContained) {
    return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part_.schema), "contains",
                        "more than one, or with counts that are too large");
  }
  if (wanted.least > most_matches) return rules_.nothing();
  SchemaId other = kAnySchema;
  if (has_most) {
    TRY_ASSIGN(other, document_.negation_of(wanted.schema));
  }
  TRY(document_.spend((last + 1) * (most_matches + 1) * 10, part_.schema));
  const auto state = [&](size_t c, uint32_t f) { return static_cast<uint32_t>(1 + c * (most_matches + 1) + f); };
  ExprGraph graph;
  graph.n_states = state(last, most_matches) + 4;
  // State 0 is before the first item, which no comma precedes. If the number of items is not limited, state (0, f)
  // follows one or more items.
  const uint32_t end = graph.n_states - 1;
  graph.finals = {end};
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("]")});
  if (count.min == 0 && wanted.least == 0) graph.add_edge(0, rules_.bytes("]"), end);
  const auto add_item = [&](uint32_t from, size_t c, uint32_t f, bool first) {
    if (c == last && count.max != kUnbounded) return;
    const SchemaId item = item_at(part_, c);
    const size_t next = std::min(c + 1, last);
    for (const uint32_t more : {0u, 1u}) {
      if (more == 1 && f == most_matches) continue;
      const SchemaId schema = document_.conjunction(item, more == 1 ? wanted.schema : other);
      if (schema == kNoSchema) continue;
      const ExprId value = compiler_.call(schema);
      graph.add_edge(from, first ? value : rules_.sequence({writer_.comma(), value}), state(next, f + more));
    }
  };
  add_item(0, 0, 0, true);
  for (size_t c = last == 0 ? 0 : 1; c <= last; ++c) {
    for (uint32_t f = 0; f <= most_matches; ++f) {
      if (f >= wanted.least && c >= count.min) graph.add_edge(state(c, f), close, end);
      add_item(state(c, f), c, f, false);
    }
  }
  return rules_.sequence({rules_.bytes("["), writer_.space(), rules_.graph(std::move(graph))});
}

}  // namespace ibid
