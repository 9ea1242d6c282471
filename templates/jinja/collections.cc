#include "templates/jinja/operations.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/json_limits.h"
#include "templates/jinja/python_text.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {
namespace {

Value child(const Value& parent, const Json& json) {
  JsonSource source = parent.json_source();
  source.message = -1;
  return Value::json(json, source);
}

const Json::object_t& json_object(const Value& value) { return value.json_value().get_ref<const Json::object_t&>(); }

Value json_key(const Value& dict, const std::string& key) { return Value::text(key, dict.json_source().origin); }

Items characters(RenderState& state, const MarkedText& text) {
  state.meter.create(text.size() * sizeof(Value));
  Items items;
  for (size_t i = 0; i < text.size();) {
    const size_t length = char_length(text.view(), i);
    items.push_back(Value::string(text.substr(i, i + length)));
    i += length;
  }
  return items;
}

// Returns mutable elements, because iterating a generator consumes them.
Items& elements_of_generator(const Value& value) { return const_cast<SequenceObject&>(value.sequence_object()).items; }

bool is_hashable(const Value& key) {
  if (key.is_dict() || key.is_list()) return false;
  if (!key.is_tuple()) return true;
  for (const Value& item : key.sequence_object().items) {
    if (!is_hashable(item)) return false;
  }
  return true;
}

}  // namespace

Value resolve_messages(RenderState& state, const Value& value) {
  if (!value.is(Kind::kMessages)) return value;
  return Value::list(state.all_messages_from(value.index()));
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return value.is_markup() ? "Markup" : "str";
    case Kind::kDict:
    case Kind::kJsonDict: return "dict";
    case Kind::kJsonList:
    case Kind::kMessages: return "list";
    case Kind::kRange: return "range";
    case Kind::kNamespace: return "Namespace";
    case Kind::kMacro: return "Macro";
    case Kind::kFunction: return "function";
    case Kind::kMethod: return "builtin_function_or_method";
    case Kind::kLoop: return "LoopContext";
    case Kind::kSequence: break;
  }
  switch (value.sequence_object().style) {
    case SequenceStyle::kList: return "list";
    case SequenceStyle::kTuple: return "tuple";
    case SequenceStyle::kGroup: return "_GroupTuple";
    case SequenceStyle::kKeys: return "dict_keys";
    case SequenceStyle::kValues: return "dict_values";
    case SequenceStyle::kItems: return "dict_items";
    case SequenceStyle::kGenerator: return "generator";
  }
  return "object";
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kSequence:
    case Kind::kDict:
    case Kind::kJsonList:
    case Kind::kJsonDict:
    case Kind::kMessages:
    case Kind::kRange:
    case Kind::kLoop: return true;
    default: return false;
  }
}

Items iterate(RenderState& state, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return {};
    case Kind::kString: return characters(state, value.as_string());
    case Kind::kMessages: return state.all_messages_from(value.index());
    case Kind::kSequence:
      if (value.is_style(SequenceStyle::kGenerator)) return std::exchange(elements_of_generator(value), {});
      state.meter.create(value.sequence_object().items.size() * sizeof(Value));
      return value.sequence_object().items;
    case Kind::kDict:
    case Kind::kJsonDict: {
      Items keys;
      const size_t size = dict_size(value);
      state.meter.create(size * sizeof(Value));
      for (size_t i = 0; i < size; ++i) {
        keys.push_back(value.is(Kind::kDict)
                           ? value.dict_object().entries[i].first
                           : json_key(value, (json_object(value).begin() + static_cast<ptrdiff_t>(i))->first));
      }
      return keys;
    }
    case Kind::kJsonList:
    case Kind::kRange: {
      Items items;
      const size_t size = indexable_size(value);
      state.meter.create(size * sizeof(Value));
      for (size_t i = 0; i < size; ++i) items.push_back(element(value, i));
      return items;
    }
    default: fail("'" + std::string(type_name(value)) + "' object is not iterable");
  }
}

std::optional<Value> next_of_generator(const Value& value) {
  if (!value.is_style(SequenceStyle::kGenerator)) return std::nullopt;
  Items& items = elements_of_generator(value);
  if (items.empty()) return std::nullopt;
  Value first = std::move(items.front());
  items.erase(items.begin());
  return first;
}

bool is_indexable(const Value& value) { return value.is_list() || value.is_tuple() || value.is(Kind::kRange); }

size_t indexable_size(const Value& value) {
  if (value.is(Kind::kJsonList)) return value.json_value().size();
  if (value.is(Kind::kRange)) return static_cast<size_t>(value.range_object().size());
  return value.sequence_object().items.size();
}

Value element(const Value& value, size_t index) {
  if (value.is(Kind::kJsonList)) return child(value, value.json_value()[index]);
  if (value.is(Kind::kRange)) {
    const RangeObject& range = value.range_object();
    return Value::integer(range.start + static_cast<int64_t>(index) * range.step);
  }
  return value.sequence_object().items[index];
}

size_t length(RenderState& state, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kString: state.meter.scan(value.as_string().size()); return count_chars(value.bytes());
    case Kind::kDict:
    case Kind::kJsonDict: return dict_size(value);
    case Kind::kMessages: {
      const size_t count = state.message_count();
      return count > value.index() ? count - value.index() : 0;
    }
    case Kind::kSequence:
      if (value.is_style(SequenceStyle::kGenerator)) break;
      return value.sequence_object().items.size();
    case Kind::kJsonList:
    case Kind::kRange: return indexable_size(value);
    default: break;
  }
  fail("object of type '" + std::string(type_name(value)) + "' has no len()");
}

size_t dict_size(const Value& value) {
  return value.is(Kind::kDict) ? value.dict_object().entries.size() : value.json_value().size();
}

Entry dict_entry(const Value& value, size_t index) {
  if (value.is(Kind::kDict)) return value.dict_object().entries[index];
  const auto& [key, json] = *(json_object(value).begin() + static_cast<ptrdiff_t>(index));
  return {json_key(value, key), child(value, json)};
}

std::optional<Value> dict_find(RenderState& state, const Value& value, std::string_view key) {
  state.meter.scan(8 * dict_size(value));
  if (value.is(Kind::kJsonDict)) {
    for (const auto& [name, json] : json_object(value)) {
      if (name == key) return child(value, json);
    }
    return std::nullopt;
  }
  for (const auto& [name, item] : value.dict_object().entries) {
    if (name.is_string() && name.bytes() == key) return item;
  }
  return std::nullopt;
}

std::optional<Value> dict_find(RenderState& state, const Value& value, const Value& key) {
  if (key.is_string()) return dict_find(state, value, key.bytes());
  if (!is_hashable(key)) fail("unhashable type: '" + std::string(type_name(key)) + "'");
  if (value.is(Kind::kJsonDict)) return std::nullopt;
  state.meter.scan(8 * dict_size(value));
  for (const auto& [name, item] : value.dict_object().entries) {
    if (equals(state, name, key)) return item;
  }
  return std::nullopt;
}

TextOrigin origin_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kString: return value.as_string().safe_origin();
    case Kind::kJsonList:
    case Kind::kJsonDict: return value.json_source().origin;
    case Kind::kMessages:
    case Kind::kNamespace: return TextOrigin::kInput;  // a namespace counts as input, whatever its attributes are
    case Kind::kSequence:
      for (const Value& item : value.sequence_object().items) {
        if (origin_of(item) == TextOrigin::kInput) return TextOrigin::kInput;
      }
      return TextOrigin::kTemplate;
    case Kind::kDict:
      for (const auto& [key, item] : value.dict_object().entries) {
        if (origin_of(key) == TextOrigin::kInput || origin_of(item) == TextOrigin::kInput) return TextOrigin::kInput;
      }
      return TextOrigin::kTemplate;
    default: return TextOrigin::kTemplate;
  }
}

bool holds_reference(const Value& value) {
  switch (value.kind()) {
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kMethod: return true;
    case Kind::kMacro: return value.macro_object().closure != nullptr;
    case Kind::kSequence: {
      if (value.is_style(SequenceStyle::kGenerator)) return true;
      const Items& items = value.sequence_object().items;
      return std::any_of(items.begin(), items.end(), holds_reference);
    }
    case Kind::kDict: {
      const auto& entries = value.dict_object().entries;
      return std::any_of(entries.begin(), entries.end(),
                         [](const Entry& entry) { return holds_reference(entry.second); });
    }
    default: return false;
  }
}

void DictBuilder::set(const Value& key, Value value) {
  if (!is_hashable(key)) fail("unhashable type: '" + std::string(type_name(key)) + "'");
  state_.meter.create(sizeof(Entry));
  if (key.is_string()) {
    const auto [it, is_new] = strings_.emplace(key.bytes(), entries_.size());
    if (!is_new) {
      entries_[it->second].second = std::move(value);
      return;
    }
  } else {
    state_.meter.scan(8 * entries_.size());
    for (auto& [name, old] : entries_) {
      if (!name.is_string() && equals(state_, name, key)) {
        old = std::move(value);
        return;
      }
    }
  }
  entries_.emplace_back(key, std::move(value));
}

namespace {

struct Bounds {
  int64_t start, stop, step;
};

// Computes Python's slice.indices(). Returns nullopt if a bound is not an integer.
std::optional<Bounds> resolve_bounds(const Value& start, const Value& stop, const Value& step, int64_t size) {
  for (const Value* bound : {&start, &stop, &step}) {
    if (!bound->is_none() && !bound->is_integral()) return std::nullopt;
  }
  const int64_t by = step.is_none() ? 1 : step.as_int();
  if (by == 0) fail("slice step cannot be zero");
  const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? size : size - 1;
  const auto clamp = [&](const Value& bound, int64_t fallback) {
    if (bound.is_none()) return fallback;
    int64_t at = bound.as_int();
    if (at < 0) at = at < -size ? lowest : at + size;
    return std::clamp(at, lowest, highest);
  };
  return Bounds{clamp(start, by > 0 ? lowest : highest), clamp(stop, by > 0 ? highest : lowest), by};
}

Value slice_text(RenderState& state, const Value& object, const Bounds& bounds) {
  const MarkedText& text = object.as_string();
  state.meter.scan(text.size());
  state.meter.create(text.size());
  if (bounds.step == 1) {
    if (bounds.start >= bounds.stop) return Value::string({}, object.is_markup());
    const size_t begin = char_offset(text.view(), static_cast<size_t>(bounds.start));
    const auto count = static_cast<size_t>(bounds.stop - bounds.start);
    const size_t end = begin + char_offset(text.view().substr(begin), count);
    return Value::string(text.substr(begin, end), object.is_markup());
  }
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size(); i += char_length(text.view(), i)) offsets.push_back(i);
  offsets.push_back(text.size());
  MarkedText out;
  for (int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;) {
    const auto at = static_cast<size_t>(i);
    out.append(text.substr(offsets[at], offsets[at + 1]));
    if (__builtin_add_overflow(i, bounds.step, &i)) break;
  }
  return Value::string(std::move(out), object.is_markup());
}

// Returns messages[a:b:c]. If a >= 0 and b is missing, the result is a view, which reads no message; if b >= 0 is
// given, only the messages before b are read.
Value slice_messages(RenderState& state, const Value& object, const Value& start, const Value& stop,
                     const Value& step) {
  const bool forward = step.is_none() || (step.is_integral() && step.as_int() == 1);
  const bool from_front = start.is_none() || (start.is_integral() && start.as_int() >= 0);
  const size_t first = from_front && !start.is_none() ? static_cast<size_t>(start.as_int()) : 0;
  size_t begin = 0;
  if (forward && from_front && !__builtin_add_overflow(object.index(), first, &begin)) {
    if (stop.is_none()) return Value::messages(begin);
    size_t end = 0;
    if (stop.is_integral() && stop.as_int() >= 0 &&
        !__builtin_add_overflow(object.index(), static_cast<size_t>(stop.as_int()), &end) &&
        (end == 0 || state.has_message(end - 1))) {
      Items items;
      for (size_t i = begin; i < end; ++i) items.push_back(*state.message(i));
      state.meter.create(items.size() * sizeof(Value));
      return Value::list(std::move(items));
    }
  }
  return slice(state, resolve_messages(state, object), start, stop, step);
}

}  // namespace

std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is(Kind::kNamespace)) return "jinja2.utils.Namespace object";
  return std::string(type_name(value)) + " object";
}

Value no_attribute(const Value& object, const std::string& name) {
  return Value::undefined("'" + object_name(object) + "' has no attribute '" + name + "'");
}

Value indexed(RenderState& state, const Value& object, const Value& key) {
  const int64_t index = key.as_int();
  const std::string where = std::to_string(index);
  if (object.is(Kind::kMessages)) {
    if (index >= 0) {
      size_t absolute = 0;
      if (!__builtin_add_overflow(object.index(), static_cast<size_t>(index), &absolute)) {
        if (auto message = state.message(absolute)) return std::move(*message);
      }
      return Value::undefined("list object has no element " + where);
    }
    return indexed(state, resolve_messages(state, object), key);
  }
  if (object.is_string()) {
    const std::string_view text = object.bytes();
    state.meter.scan(text.size());
    const auto n = static_cast<int64_t>(count_chars(text));
    const int64_t at = index < 0 ? index + n : index;
    if (at < 0 || at >= n) return Value::undefined("str object has no element " + where);
    const size_t begin = char_offset(text, static_cast<size_t>(at));
    return Value::string(object.as_string().substr(begin, begin + char_length(text, begin)), object.is_markup());
  }
  const auto n = static_cast<int64_t>(indexable_size(object));
  const int64_t at = index < 0 ? index + n : index;
  if (at < 0 || at >= n) return Value::undefined(std::string(type_name(object)) + " object has no element " + where);
  return element(object, static_cast<size_t>(at));
}

Value slice(RenderState& state, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is(Kind::kMessages)) return slice_messages(state, object, start, stop, step);
  if (object.is_dict()) fail("unhashable type: 'slice'");
  if (!object.is_string() && !is_indexable(object)) {
    fail("'" + std::string(type_name(object)) + "' object is not subscriptable");
  }
  const size_t size = object.is_string() ? length(state, object) : indexable_size(object);
  const auto bounds = resolve_bounds(start, stop, step, static_cast<int64_t>(size));
  if (!bounds) fail("slice indices must be integers or None or have an __index__ method");
  if (object.is_string()) return slice_text(state, object, *bounds);
  if (object.is(Kind::kRange)) {
    const RangeObject& range = object.range_object();
    return Value::range(range.start + bounds->start * range.step, range.start + bounds->stop * range.step,
                        range.step * bounds->step);
  }
  Items items;
  for (int64_t i = bounds->start; bounds->step > 0 ? i < bounds->stop : i > bounds->stop;) {
    items.push_back(element(object, static_cast<size_t>(i)));
    if (__builtin_add_overflow(i, bounds->step, &i)) break;
  }
  state.meter.create(items.size() * sizeof(Value));
  return Value::sequence(object.is_tuple() ? SequenceStyle::kTuple : SequenceStyle::kList, std::move(items));
}

}  // namespace ibid::jinja
