#include "templates/jinja/subscript.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

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

// messages[a:b:c]. With a >= 0 and no end it stays a view; a known end needs only so many messages to exist.
Value slice_messages(RenderState& state, const Value& object, const Value& start, const Value& stop,
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
      size_t absolute;
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
    return Value::string(object.as_string().substr(begin, begin + char_length(text, begin)),
                         object.is_markup());
  }
  const auto n = static_cast<int64_t>(indexable_size(object));
  const int64_t at = index < 0 ? index + n : index;
  if (at < 0 || at >= n)
    return Value::undefined(std::string(type_name(object)) + " object has no element " + where);
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
