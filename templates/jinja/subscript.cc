// Attributes, items and slices of interpreter.h: jinja2's environment.getattr and getitem with the sandbox.
#include <algorithm>

#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/interpreter.h"
#include "templates/jinja/methods.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

// How Jinja calls an object in "... has no attribute".
std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is(Kind::kNamespace)) return "jinja2.utils.Namespace object";
  return std::string(type_name(value)) + " object";
}

Value missing(const Value& object, const std::string& name) {
  return Value::undefined("'" + object_name(object) + "' has no attribute '" + name + "'");
}

struct Bounds {
  int64_t start, stop, step;
};

// slice.indices() of Python. nullopt: a bound that is no integer.
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

}  // namespace

Value Interpreter::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) fail(object.undefined_message());
  if (object.is(Kind::kLoop)) return loop_attribute(object.loop_object(), name);
  if (object.is(Kind::kNamespace)) {
    for (const auto& [key, value] : *state_.namespaces[object.index()]) {
      if (key == name) return value;
    }
  }
  if (const Method method = find_method(object, name); method != nullptr)
    return Value::method(object, method);
  if (is_unsafe_attribute(object, name)) {
    return Value::undefined("access to attribute '" + name + "' of '" + std::string(type_name(object)) +
                            "' object is unsafe.");
  }
  if (object.is_style(SequenceStyle::kGroup) && (name == "grouper" || name == "list")) {
    return object.sequence_object().items[name == "list" ? 1 : 0];
  }
  if (object.is(Kind::kMacro) && name == "name") return Value::text(object.macro_object().node->name);
  if (object.is_dict()) {
    if (auto value = dict_find(state_, object, name)) return std::move(*value);
  }
  return missing(object, name);
}

// object[key] where that is an element; undefined where Python raises LookupError or TypeError.
Value Interpreter::indexed(const Value& object, const Value& key) {
  const int64_t index = key.as_int();
  const std::string where = std::to_string(index);
  if (object.is(Kind::kMessages)) {
    if (index >= 0) {
      size_t absolute;
      if (!__builtin_add_overflow(object.index(), static_cast<size_t>(index), &absolute)) {
        if (auto message = state_.message(absolute)) return std::move(*message);
      }
      return Value::undefined("list object has no element " + where);
    }
    return indexed(resolve_messages(state_, object), key);
  }
  if (object.is_string()) {
    const std::string_view text = object.bytes();
    state_.meter.scan(text.size());
    const auto n = static_cast<int64_t>(count_chars(text));
    const int64_t at = index < 0 ? index + n : index;
    if (at < 0 || at >= n) return Value::undefined("str object has no element " + where);
    const size_t begin = char_offset(text, static_cast<size_t>(at));
    return Value::string(object.as_string().substr(begin, begin + char_length(text, begin)),
                         object.is_markup());
  }
  const auto n = static_cast<int64_t>(indexable_size(object));
  const int64_t at = index < 0 ? index + n : index;
  if (at < 0 || at >= n)
    return Value::undefined(std::string(type_name(object)) + " object has no element " + where);
  return element(object, static_cast<size_t>(at));
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail(object.undefined_message());
  if (object.is_dict()) {
    const bool hashable = !key.is_dict() && !key.is_list() && !key.is(Kind::kMessages);
    if (hashable) {
      if (auto value = dict_find(state_, object, key)) return std::move(*value);
    }
  } else if (key.is_integral() &&
             (object.is_string() || is_indexable(object) || object.is(Kind::kMessages))) {
    return indexed(object, key);
  }
  if (!key.is_string()) {
    return Value::undefined("'" + object_name(object) + "' has no such element");
  }
  // Subscription with text falls back to attributes, which for a dict's keys found nothing above.
  return attribute(object, key.bytes());
}

Value Interpreter::evaluate_slice(const Expr& expr, const FramePtr& frame) {
  const Value object = evaluate(*expr.children[0], frame);
  const auto bound = [&](size_t i) {
    return expr.children[i] == nullptr ? Value::none() : evaluate(*expr.children[i], frame);
  };
  const Value start = bound(1), stop = bound(2), step = bound(3);
  if (object.is_undefined()) fail(object.undefined_message());
  return slice(object, start, stop, step);
}

// messages[a:b:c]. With a >= 0 and no end it stays a view; a known end needs only so many messages to exist.
Value Interpreter::slice_messages(const Value& object, const Value& start, const Value& stop,
                                  const Value& step) {
  const bool forward = step.is_none() || (step.is_integral() && step.as_int() == 1);
  const bool from_front = start.is_none() || (start.is_integral() && start.as_int() >= 0);
  const size_t first = from_front && !start.is_none() ? static_cast<size_t>(start.as_int()) : 0;
  size_t begin;
  if (forward && from_front && !__builtin_add_overflow(object.index(), first, &begin)) {
    if (stop.is_none()) return Value::messages(begin);
    size_t end;
    if (stop.is_integral() && stop.as_int() >= 0 &&
        !__builtin_add_overflow(object.index(), static_cast<size_t>(stop.as_int()), &end) &&
        (end == 0 || state_.has_message(end - 1))) {
      Items items;
      for (size_t i = begin; i < end; ++i) items.push_back(*state_.message(i));
      state_.meter.create(items.size() * sizeof(Value));
      return Value::list(std::move(items));
    }
  }
  return slice(resolve_messages(state_, object), start, stop, step);
}

Value Interpreter::slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is(Kind::kMessages)) return slice_messages(object, start, stop, step);
  if (!object.is_string() && !is_indexable(object)) return missing(object, "slice");
  const size_t size = object.is_string() ? length(state_, object) : indexable_size(object);
  const auto bounds = resolve_bounds(start, stop, step, static_cast<int64_t>(size));
  if (!bounds) return missing(object, "slice");
  if (object.is_string()) return slice_text(state_, object, *bounds);
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
  state_.meter.create(items.size() * sizeof(Value));
  return Value::sequence(object.is_tuple() ? SequenceStyle::kTuple : SequenceStyle::kList, std::move(items));
}

}  // namespace ibid::jinja
