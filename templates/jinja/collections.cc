#include "templates/jinja/collections.h"

#include <algorithm>

#include "base/json_limits.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/operators.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

Value child(const Value& parent, const Json& json) {
  JsonSource source = parent.json_source();
  source.message = -1;
  return Value::json(json, source);
}

const Json::object_t& json_object(const Value& value) {
  return value.json_value().get_ref<const Json::object_t&>();
}

Value json_key(const Value& dict, const std::string& key) {
  return Value::text(key, dict.json_source().origin);
}

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

// Iterating a generator is what uses it up: its elements are the one part of a value that changes.
Items& elements_of_generator(const Value& value) {
  return const_cast<SequenceObject&>(value.sequence_object()).items;
}

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
        keys.push_back(
            value.is(Kind::kDict)
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

bool is_indexable(const Value& value) {
  return value.is_list() || value.is_tuple() || value.is(Kind::kRange);
}

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
    case Kind::kMessages: return TextOrigin::kInput;
    case Kind::kNamespace: return TextOrigin::kInput;  // whatever it holds
    case Kind::kSequence:
      for (const Value& item : value.sequence_object().items) {
        if (origin_of(item) == TextOrigin::kInput) return TextOrigin::kInput;
      }
      return TextOrigin::kTemplate;
    case Kind::kDict:
      for (const auto& [key, item] : value.dict_object().entries) {
        if (origin_of(key) == TextOrigin::kInput || origin_of(item) == TextOrigin::kInput)
          return TextOrigin::kInput;
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

}  // namespace ibid::jinja
