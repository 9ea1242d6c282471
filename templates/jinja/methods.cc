// Methods of dicts, lists and tuples, and what the sandbox hides.
#include "templates/jinja/methods.h"

#include <algorithm>

#include "templates/jinja/arguments.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/operators.h"

namespace ibid::jinja {
namespace {

Value dict_get(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "get", {"key", "default"}, 1);
  if (auto value = dict_find(in.state(), self, parameters.at(0))) return std::move(*value);
  return parameters.value_or(1, Value::none());
}

Value dict_view(Evaluator& in, const Value& self, const Arguments& args, const char* name,
                SequenceStyle style) {
  const Parameters parameters(args, name, {});
  Items items;
  in.state().meter.create(dict_size(self) * 3 * sizeof(Value));
  for (size_t i = 0; i < dict_size(self); ++i) {
    auto [key, value] = dict_entry(self, i);
    if (style == SequenceStyle::kItems) {
      items.push_back(Value::tuple({std::move(key), std::move(value)}));
    } else {
      items.push_back(style == SequenceStyle::kKeys ? std::move(key) : std::move(value));
    }
  }
  return Value::sequence(style, std::move(items));
}

Value dict_items(Evaluator& in, const Value& self, const Arguments& args) {
  return dict_view(in, self, args, "items", SequenceStyle::kItems);
}
Value dict_keys(Evaluator& in, const Value& self, const Arguments& args) {
  return dict_view(in, self, args, "keys", SequenceStyle::kKeys);
}
Value dict_values(Evaluator& in, const Value& self, const Arguments& args) {
  return dict_view(in, self, args, "values", SequenceStyle::kValues);
}

// Values do not change, so a copy is the thing itself.
Value copy(Evaluator&, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "copy", {});
  return self;
}

Value list_index(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "index", {"value"}, 1);
  const Items items = iterate(in.state(), self);
  for (size_t i = 0; i < items.size(); ++i) {
    if (equals(in.state(), items[i], parameters.at(0))) return Value::integer(static_cast<int64_t>(i));
  }
  fail("the value is not in the list");
}

Value list_count(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "count", {"value"}, 1);
  const Items items = iterate(in.state(), self);
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equals(in.state(), item, parameters.at(0));
  }));
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Method find_method(const Value& value, std::string_view name) {
  if (value.is_string()) return find_string_method(name);
  if (value.is_dict()) {
    if (name == "get") return dict_get;
    if (name == "items") return dict_items;
    if (name == "keys") return dict_keys;
    if (name == "values") return dict_values;
    if (name == "copy") return copy;
  }
  const bool is_list = value.is_list() || value.is(Kind::kMessages);
  if (is_list && name == "copy") return copy;
  if (is_list || value.is_tuple() || value.is(Kind::kRange)) {
    if (name == "index") return list_index;
    if (name == "count") return list_count;
  }
  return nullptr;
}

bool is_unsafe_attribute(const Value& value, std::string_view name) {
  if (value.is_dict() && is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"})) return true;
  if ((value.is_list() || value.is(Kind::kMessages)) &&
      is_one_of(name, {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"})) {
    return true;
  }
  return name.starts_with("__");
}

}  // namespace ibid::jinja
