// Filters on whole lists and dicts.
#include <algorithm>

#include "templates/jinja/arguments.h"
#include "templates/jinja/attribute_getter.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/filters.h"
#include "templates/jinja/operators.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {
namespace {

Value generator(Items items) { return Value::sequence(SequenceStyle::kGenerator, std::move(items)); }

Value do_length(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "length", {});
  return Value::integer(static_cast<int64_t>(length(in.state(), subject)));
}

Value do_first(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "first", {});
  if (subject.is(Kind::kMessages)) {
    if (auto message = in.state().message(subject.index())) return std::move(*message);
  }
  if (auto item = next_of_generator(subject)) return std::move(*item);
  const Items items = iterate(in.state(), subject);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value do_last(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "last", {});
  const Items items = iterate(in.state(), subject);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value do_list(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "list", {});
  return Value::list(iterate(in.state(), subject));
}

Value do_join(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "join", {"d", "attribute"});
  RenderState& state = in.state();
  const MarkedText separator = parameters.has(0) ? str(state, parameters.at(0)) : MarkedText();
  AttributeGetter getter(in, parameters.get(1));
  MarkedText out;
  bool first = true;
  for (const Value& item : iterate(state, subject)) {
    const MarkedText piece = str(state, getter(item));
    state.meter.create(piece.size() + separator.size());
    if (!first) out.append(separator);
    first = false;
    out.append(piece);
    state.meter.check_string(out.size());
  }
  return Value::string(std::move(out));
}

Value do_reverse(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "reverse", {});
  Items items = iterate(in.state(), subject);
  std::reverse(items.begin(), items.end());
  if (!subject.is_string()) return generator(std::move(items));
  MarkedText out;
  for (const Value& character : items) out.append(character.as_string());
  return Value::string(std::move(out));
}

using Keyed = std::vector<std::pair<Value, Value>>;  // what to sort by, and what is sorted

// Equal keys keep their order, in reverse too.
void sort_by_key(RenderState& state, Keyed& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    state.meter.step();
    return reverse ? less(state, b.first, a.first) : less(state, a.first, b.first);
  });
}

Value items_of(Keyed keyed) {
  Items items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return Value::list(std::move(items));
}

Value do_sort(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "sort", {"reverse", "case_sensitive", "attribute"});
  RenderState& state = in.state();
  auto getters = attribute_getters(in, parameters.get(2), !parameters.flag(state, 1, false));
  Keyed keyed;
  for (const Value& item : iterate(state, subject))
    keyed.emplace_back(Value::list(AttributeGetter::all(getters, item)), item);
  sort_by_key(state, keyed, parameters.flag(state, 0, false));
  return items_of(std::move(keyed));
}

Value do_unique(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "unique", {"case_sensitive", "attribute"});
  RenderState& state = in.state();
  AttributeGetter getter(in, parameters.get(1), !parameters.flag(state, 0, false));
  Items items, keys;
  for (const Value& item : iterate(state, subject)) {
    const Value key = getter(item);
    const bool seen =
        std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equals(state, k, key); });
    if (seen) continue;
    keys.push_back(key);
    items.push_back(item);
  }
  return generator(std::move(items));
}

Value extreme(Evaluator& in, const Value& subject, const Arguments& args, const char* name, bool want_max) {
  const Parameters parameters(args, name, {"case_sensitive", "attribute"});
  RenderState& state = in.state();
  AttributeGetter getter(in, parameters.get(1), !parameters.flag(state, 0, false));
  const Items items = iterate(state, subject);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = getter(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = getter(items[i]);
    if (want_max ? less(state, best_key, key, ">") : less(state, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value do_min(Evaluator& in, const Value& s, const Arguments& args) {
  return extreme(in, s, args, "min", false);
}
Value do_max(Evaluator& in, const Value& s, const Arguments& args) {
  return extreme(in, s, args, "max", true);
}

Value do_sum(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "sum", {"attribute", "start"});
  AttributeGetter getter(in, parameters.get(0));
  Value total = parameters.value_or(1, Value::integer(0));
  if (total.is_string()) fail("sum() can't sum strings");
  for (const Value& item : iterate(in.state(), subject)) {
    in.state().meter.step();
    total = arithmetic(in.state(), ExprKind::kAdd, total, getter(item));
  }
  return total;
}

Value do_items(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "items", {});
  if (subject.is_undefined()) return generator({});
  if (!subject.is_dict()) fail("Can only get item pairs from a mapping.");
  Items items;
  in.state().meter.create(dict_size(subject) * 3 * sizeof(Value));
  for (size_t i = 0; i < dict_size(subject); ++i) {
    auto [key, value] = dict_entry(subject, i);
    items.push_back(Value::tuple({std::move(key), std::move(value)}));
  }
  return generator(std::move(items));
}

Value do_dictsort(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "dictsort", {"case_sensitive", "by", "reverse"});
  RenderState& state = in.state();
  const std::string by = parameters.has(1) ? parameters.string(1).bytes() : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (!subject.is_dict()) fail("'" + std::string(type_name(subject)) + "' object has no attribute 'items'");
  AttributeGetter fold(in, nullptr, !parameters.flag(state, 0, false));
  Keyed keyed;
  for (size_t i = 0; i < dict_size(subject); ++i) {
    auto [key, value] = dict_entry(subject, i);
    Value sort_key = fold(by == "key" ? key : value);
    keyed.emplace_back(std::move(sort_key), Value::tuple({std::move(key), std::move(value)}));
  }
  sort_by_key(state, keyed, parameters.flag(state, 2, false));
  return items_of(std::move(keyed));
}

Value do_groupby(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  RenderState& state = in.state();
  std::optional<Value> fallback;
  if (parameters.has(1) && !parameters.at(1).is_none()) fallback = parameters.at(1);
  AttributeGetter exact(in, parameters.get(0), false, fallback);
  AttributeGetter folded(in, parameters.get(0), !parameters.flag(state, 2, false), fallback);
  Keyed keyed;
  for (const Value& item : iterate(state, subject)) keyed.emplace_back(folded(item), item);
  sort_by_key(state, keyed, false);
  Items groups;
  for (size_t i = 0; i < keyed.size();) {
    Items members;
    size_t j = i;
    for (; j < keyed.size() && equals(state, keyed[j].first, keyed[i].first); ++j)
      members.push_back(keyed[j].second);
    const Value name = exact(keyed[i].second);
    groups.push_back(Value::sequence(SequenceStyle::kGroup, {name, Value::list(std::move(members))}));
    i = j;
  }
  return Value::list(std::move(groups));
}

Value do_batch(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "do_batch", {"linecount", "fill_with"}, 1);
  const int64_t width = parameters.integer(0, 1);
  Items rows, row;
  for (const Value& item : iterate(in.state(), subject)) {
    if (static_cast<int64_t>(row.size()) == width) rows.push_back(Value::list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    if (parameters.has(1) && !parameters.at(1).is_none() && width > static_cast<int64_t>(row.size())) {
      if (width > static_cast<int64_t>(in.state().meter.max_range()))
        fail_budget("batch is too wide (budget: range)");
      row.resize(static_cast<size_t>(width), parameters.at(1));
    }
    rows.push_back(Value::list(std::move(row)));
  }
  return generator(std::move(rows));
}

Value do_slice(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "slice", {"slices", "fill_with"}, 1);
  const Items items = iterate(in.state(), subject);
  const int64_t n = parameters.integer(0, 1);
  if (n <= 0) fail("integer division or modulo by zero");
  if (n > static_cast<int64_t>(in.state().meter.max_range())) fail_budget("too many slices (budget: range)");
  const auto slices = static_cast<size_t>(n);
  const size_t per_slice = items.size() / slices, longer = items.size() % slices;
  Items columns;
  size_t begin = 0;
  for (size_t k = 0; k < slices; ++k) {
    const size_t end = begin + per_slice + (k < longer ? 1 : 0);
    Items column(items.begin() + static_cast<ptrdiff_t>(begin), items.begin() + static_cast<ptrdiff_t>(end));
    if (parameters.has(1) && !parameters.at(1).is_none() && k >= longer) column.push_back(parameters.at(1));
    columns.push_back(Value::list(std::move(column)));
    begin = end;
  }
  return generator(std::move(columns));
}

Value do_default(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "default", {"default_value", "boolean"});
  const bool use =
      subject.is_undefined() || (parameters.flag(in.state(), 1, false) && !truthy(in.state(), subject));
  return use ? parameters.value_or(0, Value::text("")) : subject;
}

Value do_attr(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "attr", {"name"}, 1);
  // Attributes proper only: the keys of a dict are none.
  if (subject.is_dict())
    return Value::undefined("'dict object' has no attribute '" + str(in.state(), parameters.at(0)).bytes() +
                            "'");
  return in.attribute(subject, str(in.state(), parameters.at(0)).bytes());
}

constexpr NamedFilter kCollectionFilters[] = {
    {"length", do_length}, {"count", do_length},      {"first", do_first},     {"last", do_last},
    {"list", do_list},     {"join", do_join},         {"reverse", do_reverse}, {"sort", do_sort},
    {"unique", do_unique}, {"min", do_min},           {"max", do_max},         {"sum", do_sum},
    {"items", do_items},   {"dictsort", do_dictsort}, {"groupby", do_groupby}, {"batch", do_batch},
    {"slice", do_slice},   {"default", do_default},   {"d", do_default},       {"attr", do_attr},
};

}  // namespace

Filter find_collection_filter(std::string_view name) {
  for (const NamedFilter& entry : kCollectionFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

}  // namespace ibid::jinja
