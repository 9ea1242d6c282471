// Filters on lists, dicts and their items, and the methods of dicts, lists and tuples.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "templates/jinja/builtins.h"
#include "templates/jinja/operations.h"
#include "templates/jinja/python_text.h"

namespace ibid::jinja {
namespace {

// As in Jinja, a generator can be iterated once, and has no length.
Value generator(Items items) { return Value::sequence(SequenceStyle::kGenerator, std::move(items)); }

Value first(const Call& c) {
  if (c.subject.is(Kind::kMessages)) {
    if (auto message = c.state.message(c.subject.index())) return std::move(*message);
  }
  if (auto item = next_of_generator(c.subject)) return std::move(*item);
  const Items items = iterate(c.state, c.subject);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value join_items(const Call& c) {
  const MarkedText separator = c.has(0) ? str(c.state, c.at(0)) : MarkedText();
  AttributeGetter getter(c.in, c.get(1));
  MarkedText out;
  bool is_first = true;
  for (const Value& item : iterate(c.state, c.subject)) {
    const MarkedText piece = str(c.state, getter(item));
    c.state.meter.create(piece.size() + separator.size());
    if (!is_first) out.append(separator);
    is_first = false;
    out.append(piece);
    c.state.meter.check_string(out.size());
  }
  return Value::string(std::move(out));
}

Value reverse(const Call& c) {
  Items items = iterate(c.state, c.subject);
  std::reverse(items.begin(), items.end());
  if (!c.subject.is_string()) return generator(std::move(items));
  MarkedText out;
  for (const Value& character : items) out.append(character.as_string());
  return Value::string(std::move(out));
}

using Keyed = std::vector<std::pair<Value, Value>>;  // sort key and item

// A stable sort: elements with equal keys keep their order, even if the sort is reversed.
void sort_by_key(RenderState& state, Keyed& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    state.meter.step();
    return reverse ? less(state, b.first, a.first) : less(state, a.first, b.first);
  });
}

Value items_of(Keyed&& keyed) {
  Items items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return Value::list(std::move(items));
}

Value sort(const Call& c) {
  auto getters = attribute_getters(c.in, c.get(2), !c.flag(1, false));
  Keyed keyed;
  for (const Value& item : iterate(c.state, c.subject))
    keyed.emplace_back(Value::list(AttributeGetter::all(getters, item)), item);
  sort_by_key(c.state, keyed, c.flag(0, false));
  return items_of(std::move(keyed));
}

Value unique(const Call& c) {
  AttributeGetter getter(c.in, c.get(1), !c.flag(0, false));
  Items items, keys;
  for (const Value& item : iterate(c.state, c.subject)) {
    const Value key = getter(item);
    const bool seen = std::ranges::any_of(keys, [&](const Value& k) { return equals(c.state, k, key); });
    if (seen) continue;
    keys.push_back(key);
    items.push_back(item);
  }
  return generator(std::move(items));
}

Value extreme(const Call& c, bool want_max) {
  AttributeGetter getter(c.in, c.get(1), !c.flag(0, false));
  const Items items = iterate(c.state, c.subject);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = getter(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = getter(items[i]);
    if (want_max ? less(c.state, best_key, key, ">") : less(c.state, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value sum(const Call& c) {
  AttributeGetter getter(c.in, c.get(0));
  Value total = c.value_or(1, Value::integer(0));
  if (total.is_string()) fail("sum() can't sum strings");
  for (const Value& item : iterate(c.state, c.subject)) {
    c.state.meter.step();
    total = arithmetic(c.state, ExprKind::kAdd, total, getter(item));
  }
  return total;
}

// Returns keys, values or pairs of a dict. REQUIRES: c.subject.is_dict().
Value dict_view(const Call& c, SequenceStyle style) {
  c.state.meter.create(dict_size(c.subject) * 3 * sizeof(Value));
  Items items;
  for (size_t i = 0; i < dict_size(c.subject); ++i) {
    auto [key, value] = dict_entry(c.subject, i);
    if (style == SequenceStyle::kKeys || style == SequenceStyle::kValues) {
      items.push_back(style == SequenceStyle::kKeys ? std::move(key) : std::move(value));
    } else {
      items.push_back(Value::tuple({std::move(key), std::move(value)}));
    }
  }
  return Value::sequence(style, std::move(items));
}

Value item_pairs(const Call& c) {
  if (c.subject.is_undefined()) return generator({});
  if (!c.subject.is_dict()) fail("Can only get item pairs from a mapping.");
  return dict_view(c, SequenceStyle::kGenerator);
}

Value dictsort(const Call& c) {
  const std::string by = c.has(1) ? c.string(1).bytes() : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (!c.subject.is_dict()) fail("'" + std::string(type_name(c.subject)) + "' object has no attribute 'items'");
  AttributeGetter fold(c.in, nullptr, !c.flag(0, false));
  Keyed keyed;
  for (size_t i = 0; i < dict_size(c.subject); ++i) {
    auto [key, value] = dict_entry(c.subject, i);
    Value sort_key = fold(by == "key" ? key : value);
    keyed.emplace_back(std::move(sort_key), Value::tuple({std::move(key), std::move(value)}));
  }
  sort_by_key(c.state, keyed, c.flag(2, false));
  return items_of(std::move(keyed));
}

Value groupby(const Call& c) {
  std::optional<Value> fallback;
  if (c.has_value(1)) fallback = c.at(1);
  AttributeGetter exact(c.in, c.get(0), false, fallback);
  AttributeGetter folded(c.in, c.get(0), !c.flag(2, false), fallback);
  Keyed keyed;
  for (const Value& item : iterate(c.state, c.subject)) keyed.emplace_back(folded(item), item);
  sort_by_key(c.state, keyed, false);
  Items groups;
  for (size_t i = 0; i < keyed.size();) {
    Items members;
    size_t j = i;
    for (; j < keyed.size() && equals(c.state, keyed[j].first, keyed[i].first); ++j) members.push_back(keyed[j].second);
    const Value name = exact(keyed[i].second);
    groups.push_back(Value::sequence(SequenceStyle::kGroup, {name, Value::list(std::move(members))}));
    i = j;
  }
  return Value::list(std::move(groups));
}

Value batch(const Call& c) {
  const int64_t width = c.integer(0, 1);
  Items rows, row;
  for (const Value& item : iterate(c.state, c.subject)) {
    if (static_cast<int64_t>(row.size()) == width) rows.push_back(Value::list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    if (c.has_value(1) && width > static_cast<int64_t>(row.size())) {
      if (width > static_cast<int64_t>(c.state.meter.max_range())) fail_budget("batch is too wide (budget: range)");
      row.resize(static_cast<size_t>(width), c.at(1));
    }
    rows.push_back(Value::list(std::move(row)));
  }
  return generator(std::move(rows));
}

Value slice_items(const Call& c) {
  const Items items = iterate(c.state, c.subject);
  const int64_t n = c.integer(0, 1);
  if (n <= 0) fail("integer division or modulo by zero");
  if (n > static_cast<int64_t>(c.state.meter.max_range())) fail_budget("too many slices (budget: range)");
  const auto slices = static_cast<size_t>(n);
  const size_t per_slice = items.size() / slices, longer = items.size() % slices;
  Items columns;
  size_t begin = 0;
  for (size_t k = 0; k < slices; ++k) {
    const size_t end = begin + per_slice + (k < longer ? 1 : 0);
    Items column(items.begin() + static_cast<ptrdiff_t>(begin), items.begin() + static_cast<ptrdiff_t>(end));
    if (c.has_value(1) && k >= longer) column.push_back(c.at(1));
    columns.push_back(Value::list(std::move(column)));
    begin = end;
  }
  return generator(std::move(columns));
}

Value with_default(const Call& c) {
  const bool use = c.subject.is_undefined() || (c.flag(1, false) && !truthy(c.state, c.subject));
  return use ? c.value_or(0, Value::text("")) : c.subject;
}

Value attr(const Call& c) {
  // Do not look up keys of a dict: they are not attributes.
  const std::string name = str(c.state, c.at(0)).bytes();
  if (c.subject.is_dict()) return Value::undefined("'dict object' has no attribute '" + name + "'");
  return c.in.attribute(c.subject, name);
}

// --- map, select, reject and similar filters, which apply another filter or test to each item.

// Returns `args` without the first `n` positional arguments.
Arguments rest(const Arguments& args, size_t n) {
  Arguments out;
  out.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(n), args.positional.end());
  out.named = args.named;
  out.name_origin = args.name_origin;
  return out;
}

std::string name_of(const Value& value) {
  if (!value.is_string()) fail("the name of a filter or test must be a string, not " + std::string(type_name(value)));
  return value.bytes();
}

// As in Jinja, a false value counts as empty.
Items items_of(const Call& c) { return truthy(c.state, c.subject) ? iterate(c.state, c.subject) : Items(); }

Value map(const Call& c) {
  Items items = items_of(c);
  if (c.arguments.positional.empty()) {
    const Value* attribute = nullptr;
    std::optional<Value> fallback;
    for (const auto& [name, value] : c.arguments.named) {
      if (name == "attribute") {
        attribute = &value;
      } else if (name == "default") {
        fallback = value;
      } else {
        fail("Unexpected keyword argument '" + name + "'");
      }
    }
    if (attribute == nullptr) fail("map requires a filter argument");
    AttributeGetter getter(c.in, attribute, false, fallback);
    for (Value& item : items) item = getter(item);
  } else {
    const std::string name = name_of(c.arguments.positional[0]);
    const Arguments arguments = rest(c.arguments, 1);
    for (Value& item : items) item = c.in.apply_filter(name, item, arguments);
  }
  return generator(std::move(items));
}

// Returns the items for which a test returns `wanted`. by_attribute: the test is applied to an attribute of each item.
Value choose(const Call& c, bool by_attribute, bool wanted) {
  const size_t skip = by_attribute ? 1 : 0;
  if (c.arguments.positional.size() < skip) fail("Missing parameter for attribute name");
  AttributeGetter getter(c.in, by_attribute ? &c.arguments.positional[0] : nullptr);
  const bool has_test = c.arguments.positional.size() > skip;
  const std::string test = has_test ? name_of(c.arguments.positional[skip]) : "";
  const Arguments arguments = rest(c.arguments, std::min(skip + 1, c.arguments.positional.size()));
  Items chosen;
  for (const Value& item : items_of(c)) {
    c.state.meter.step();
    const Value value = getter(item);
    const bool answer = has_test ? c.in.apply_test(test, value, arguments) : truthy(c.state, value);
    if (answer == wanted) chosen.push_back(item);
  }
  return generator(std::move(chosen));
}

// --- Filters for URLs, attributes of HTML and sizes of files.

// Quotes a part of a URL; in a query, slashes are quoted and spaces become +.
std::string quote(RenderState& state, const Value& value, bool in_query) {
  constexpr std::string_view kPlain = "_.-~", kDigits = "0123456789ABCDEF";
  const MarkedText text = str(state, value);
  state.meter.create(3 * text.size());
  std::string out;
  for (const char c : text.bytes()) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && is_alnum(byte)) || kPlain.find(c) != kPlain.npos || (c == '/' && !in_query)) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

Value urlencode(const Call& c) {
  const TextOrigin origin = origin_of(c.subject);
  if (c.subject.is_string() || !is_iterable(c.subject)) return Value::text(quote(c.state, c.subject, false), origin);
  std::string out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += '&';
    out += quote(c.state, key, true) + '=' + quote(c.state, value, true);
    c.state.meter.check_string(out.size());
  };
  if (c.subject.is_dict()) {
    for (size_t i = 0; i < dict_size(c.subject); ++i) {
      const auto [key, value] = dict_entry(c.subject, i);
      add(key, value);
    }
    return Value::text(std::move(out), origin);
  }
  for (const Value& pair : iterate(c.state, c.subject)) {
    if (!is_iterable(pair)) fail("cannot unpack non-iterable " + std::string(type_name(pair)) + " object");
    const Items items = iterate(c.state, pair);
    if (items.size() != 2) fail("urlencode needs pairs, got " + std::to_string(items.size()) + " values");
    add(items[0], items[1]);
  }
  return Value::text(std::move(out), origin);
}

void check_attribute_name(const Value& key) {
  if (!key.is_string()) fail("expected string or bytes-like object, got '" + std::string(type_name(key)) + "'");
  const std::string_view name = key.bytes();
  for (size_t i = 0; i < name.size();) {
    const DecodedChar c = utf8_decode(name, i);
    if (name[i] == '/' || name[i] == '>' || name[i] == '=' || (c.valid && is_space(c.code_point))) {
      fail("Invalid character in attribute name: '" + std::string(name) + "'");
    }
    i += c.length;
  }
}

Value xmlattr(const Call& c) {
  if (c.subject.is_undefined()) fail(c.subject.undefined_message());
  if (!c.subject.is_dict()) fail("'" + std::string(type_name(c.subject)) + "' object has no attribute 'items'");
  const auto escaped = [&c](const Value& value) {
    const MarkedText text = str(c.state, value);
    c.state.meter.create(5 * text.size());
    return value.is_markup() ? text : escape_html(text);
  };
  MarkedText out;
  for (size_t i = 0; i < dict_size(c.subject); ++i) {
    const auto [key, value] = dict_entry(c.subject, i);
    if (value.is_none() || value.is_undefined()) continue;
    check_attribute_name(key);
    if (!out.empty() || c.flag(0, true)) out.append(" ", TextOrigin::kTemplate);
    out.append(escaped(key));
    out.append("=\"", TextOrigin::kTemplate);
    out.append(escaped(value));
    out.append("\"", TextOrigin::kTemplate);
    c.state.meter.check_string(out.size());
  }
  return Value::string(std::move(out));
}

Value filesizeformat(const Call& c) {
  if (c.subject.is_undefined()) fail(c.subject.undefined_message());
  const std::optional<double> number = c.subject.is_string()   ? parse_float(c.subject.bytes())
                                       : c.subject.is_number() ? std::optional(c.subject.as_double())
                                                               : std::nullopt;
  if (!number) fail("could not convert " + std::string(type_name(c.subject)) + " to float");
  const bool binary = c.flag(0, false);
  const double base = binary ? 1024 : 1000;
  if (*number == 1) return Value::text("1 Byte");
  if (*number < base) {
    if (*number <= -9.2e18) fail("integers beyond 64 bits are not supported");
    return Value::text(std::to_string(static_cast<int64_t>(*number)) + " Bytes");
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  size_t i = 0;
  double unit = base * base;
  for (; !(*number < unit) && i + 1 < kPrefixes.size(); ++i) unit *= base;
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  return Value::text(format_float(base * *number / unit, 1, 'f') + ' ' + prefix + (binary ? "iB" : "B"));
}

constexpr Builtin<Value> kFilters[] = {
    {"length()", [](const Call& c) { return Value::integer(static_cast<int64_t>(length(c.state, c.subject))); },
     "length count"},
    {"first()", first},
    {"last()",
     [](const Call& c) {
       const Items items = iterate(c.state, c.subject);
       return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
     }},
    {"list()", [](const Call& c) { return Value::list(iterate(c.state, c.subject)); }},
    {"join(d attribute)", join_items},
    {"reverse()", reverse},
    {"sort(reverse case_sensitive attribute)", sort},
    {"unique(case_sensitive attribute)", unique},
    {"min(case_sensitive attribute)", [](const Call& c) { return extreme(c, false); }},
    {"max(case_sensitive attribute)", [](const Call& c) { return extreme(c, true); }},
    {"sum(attribute start)", sum},
    {"items()", item_pairs},
    {"dictsort(case_sensitive by reverse)", dictsort},
    {"groupby(attribute | default case_sensitive)", groupby},
    {"do_batch(linecount | fill_with)", batch, "batch"},
    {"slice(slices | fill_with)", slice_items},
    {"default(default_value boolean)", with_default, "default d"},
    {"attr(name |)", attr},
    {"map(*)", map},
    {"select(*)", [](const Call& c) { return choose(c, false, true); }},
    {"reject(*)", [](const Call& c) { return choose(c, false, false); }},
    {"selectattr(*)", [](const Call& c) { return choose(c, true, true); }},
    {"rejectattr(*)", [](const Call& c) { return choose(c, true, false); }},
    {"urlencode()", urlencode},
    {"xmlattr(autospace)", xmlattr},
    {"filesizeformat(binary)", filesizeformat},
};

constexpr Builtin<Value> kDictMethods[] = {
    {"get(key | default)",
     [](const Call& c) {
       if (auto value = dict_find(c.state, c.subject, c.at(0))) return std::move(*value);
       return c.value_or(1, Value::none());
     }},
    {"items()", [](const Call& c) { return dict_view(c, SequenceStyle::kItems); }},
    {"keys()", [](const Call& c) { return dict_view(c, SequenceStyle::kKeys); }},
    {"values()", [](const Call& c) { return dict_view(c, SequenceStyle::kValues); }},
};

// Returns the value itself: values are immutable, so no copy is needed.
constexpr Builtin<Value> kCopy = {"copy()", [](const Call& c) { return c.subject; }};

constexpr Builtin<Value> kListMethods[] = {
    {"index(value |)",
     [](const Call& c) {
       const Items items = iterate(c.state, c.subject);
       for (size_t i = 0; i < items.size(); ++i) {
         if (equals(c.state, items[i], c.at(0))) return Value::integer(static_cast<int64_t>(i));
       }
       fail("the value is not in the list");
     }},
    {"count(value |)",
     [](const Call& c) {
       const Items items = iterate(c.state, c.subject);
       return Value::integer(
           std::ranges::count_if(items, [&](const Value& item) { return equals(c.state, item, c.at(0)); }));
     }},
};

}  // namespace

Filter find_filter(std::string_view name) {
  if (const Filter filter = find_text_filter(name)) return filter;
  return find_builtin<Value>(kFilters, name);
}

Method find_method(const Value& value, std::string_view name) {
  if (value.is_string()) return find_string_method(name);
  const bool is_list = value.is_list() || value.is(Kind::kMessages);
  if (name == "copy") return is_list || value.is_dict() ? &kCopy : nullptr;
  if (value.is_dict()) return find_builtin<Value>(kDictMethods, name);
  if (is_list || value.is_tuple() || value.is(Kind::kRange)) return find_builtin<Value>(kListMethods, name);
  return nullptr;
}

bool is_unsafe_attribute(const Value& value, std::string_view name) {
  if (value.is_dict() && is_name_in("clear pop popitem setdefault update", name)) return true;
  if ((value.is_list() || value.is(Kind::kMessages)) &&
      is_name_in("append clear extend insert pop remove reverse sort", name)) {
    return true;
  }
  return name.starts_with("__");
}

}  // namespace ibid::jinja
