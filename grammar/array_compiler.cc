// The arrays that a schema allows: SchemaCompiler::array().
#include <algorithm>
#include <bit>
#include <unordered_map>

#include "grammar/schema_compiler.h"

namespace ibid {
namespace {

constexpr size_t kMostDifferent = 8;      // values of which each may come once; any set of them is a state
constexpr size_t kMostCountedItems = 2000;
constexpr uint32_t kMostContained = 20;

SchemaId item_at(const SchemaPart& part, size_t i) {
  return i < part.first_items.size() ? part.first_items[i] : part.other_items;
}

}  // namespace

// [, the first items with a schema of their own, then any number of others.
Result<ExprId> SchemaCompiler::array(const SchemaPart& part) {
  if (!part.asks_of_arrays()) return writer_.any_array();
  const CountBounds& count = part.item_count;
  if (count.min > count.max) return rules_.nothing();
  if (part.unique && !part.contained.empty()) {
    return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part.schema), "uniqueItems",
                        "together with contains");
  }
  if (part.unique && count.max > 1) return array_of_different(part);
  if (!part.contained.empty()) return array_that_contains(part);
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

// Items that differ can be told where they are of a few values: a state is the set of those that were written.
Result<ExprId> SchemaCompiler::array_of_different(const SchemaPart& part) {
  const auto refused = [&](std::string_view what) {
    return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part.schema), "uniqueItems", what);
  };
  std::vector<ListedValue> values;                    // of all items
  std::vector<uint32_t> allowed;                      // by position: bits of these
  for (size_t i = 0; i < std::min<size_t>(part.item_count.max, kMostDifferent + 1); ++i) {
    TRY_ASSIGN(const auto listed, few_values(item_at(part, i)));
    if (!listed) return refused("only of items that have a few values each (enum, const, boolean, null)");
    allowed.push_back(0);
    for (const ListedValue& value : *listed) {
      const auto found = std::ranges::find(values, value.number, &ListedValue::number);
      allowed.back() |= uint32_t{1} << (found - values.begin());
      if (found == values.end()) values.push_back(value);
      if (values.size() > kMostDifferent) {
        return refused("of items of more than " + std::to_string(kMostDifferent) + " values");
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
    const bool may_close = n >= part.item_count.min && n <= part.item_count.max;
    if (may_close) graph.add_edge(set, n == 0 ? rules_.bytes("]") : close, end);
    for (uint32_t i = 0; i < values.size() && n < allowed.size(); ++i) {
      if ((set >> i & 1) != 0 || (allowed[n] >> i & 1) == 0) continue;
      graph.add_edge(set, n == 0 ? texts[i] : rules_.sequence({writer_.comma(), texts[i]}), set | 1u << i);
    }
  }
  return rules_.sequence({rules_.bytes("["), writer_.space(), rules_.graph(std::move(graph))});
}

// The values of a schema that has only a few; nothing for any other.
Result<std::optional<std::vector<ListedValue>>> SchemaCompiler::few_values(SchemaId schema) {
  static const Json kNull, kTrue = true, kFalse = false;
  TRY_ASSIGN(const SchemaPart part, read_schema(document_, schema));
  if (!part.choices.empty()) return std::optional<std::vector<ListedValue>>();
  std::vector<ListedValue> out;
  if (part.values) {
    for (const ListedValue& value : *part.values) {
      TRY_ASSIGN(const bool is_allowed, allows(part, *value.json));
      if (!is_allowed) continue;
      out.push_back(value);
      out.back().is_integer = (part.types & kFractionType) == 0;
    }
    return std::optional(out);
  }
  if ((part.types & ~(kNullType | kBooleanType)) != 0) return std::optional<std::vector<ListedValue>>();
  const auto add = [&](const Json& value) { out.push_back({&value, document_.value_number(value)}); };
  if (part.types & kNullType) add(kNull);
  if (part.types & kBooleanType) add(kTrue), add(kFalse);
  return std::optional(out);
}

// State (c, f): c items were written, as far as they are counted, and at least f of them are of the kind that the array
// has to contain. An item of that kind may also be counted as one of any kind: what is asked is "at least".
Result<ExprId> SchemaCompiler::array_that_contains(const SchemaPart& part) {
  const CountBounds& count = part.item_count;
  const size_t n_first = part.first_items.size();
  const size_t last = count.max != kUnbounded ? count.max : std::max<size_t>(count.min, n_first);
  const SchemaPart::Contained& wanted = part.contained.front();
  if (part.contained.size() > 1 || last > kMostCountedItems || wanted.least > kMostContained) {
    return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part.schema), "contains",
                        "more than one, or with counts that are too large");
  }
  TRY(document_.spend((last + 1) * (wanted.least + 1) * 10, part.schema));
  const auto state = [&](size_t c, uint32_t f) { return static_cast<uint32_t>(1 + c * (wanted.least + 1) + f); };
  ExprGraph graph;
  graph.n_states = state(last, wanted.least) + 4;
  // Without a count the first item needs a state of its own, because no comma stands in front of it.
  const uint32_t end = graph.n_states - 1;
  graph.finals = {end};
  const ExprId close = rules_.sequence({writer_.space(), rules_.bytes("]")});
  if (count.min == 0 && wanted.least == 0) graph.add_edge(0, rules_.bytes("]"), end);
  const auto add_item = [&](uint32_t from, size_t c, uint32_t f, bool first) {
    if (c == last && count.max != kUnbounded) return;
    const SchemaId item = item_at(part, c);
    const size_t next = std::min(c + 1, last);
    for (const uint32_t more : {0u, 1u}) {
      if (more == 1 && f == wanted.least) continue;
      const SchemaId schema = more == 1 ? document_.both(item, wanted.schema) : item;
      if (schema == kNoSchema) continue;
      const ExprId value = call(schema);
      graph.add_edge(from, first ? value : rules_.sequence({writer_.comma(), value}), state(next, f + more));
    }
  };
  add_item(0, 0, 0, true);
  for (size_t c = last == 0 ? 0 : 1; c <= last; ++c) {
    for (uint32_t f = 0; f <= wanted.least; ++f) {
      if (f == wanted.least && c >= count.min) graph.add_edge(state(c, f), close, end);
      add_item(state(c, f), c, f, false);
    }
  }
  return rules_.sequence({rules_.bytes("["), writer_.space(), rules_.graph(std::move(graph))});
}

}  // namespace ibid
