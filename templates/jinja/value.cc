#include "templates/jinja/value.h"

#include <algorithm>

#include "base/json_limits.h"
#include "templates/jinja/evaluator.h"

namespace ibid::jinja {
namespace {

struct MethodObject : Object {
  Value self;
  Method method = nullptr;
};

// Fails for loops and bound methods, which contain values: inside containers they could form chains of unbounded depth.
uint32_t depth_of(const Value& value) {
  if (value.is(Kind::kLoop) || value.is(Kind::kMethod)) fail("a loop or a method cannot be put into a list or dict");
  if (value.is(Kind::kSequence)) return value.sequence_object().depth;
  if (value.is(Kind::kDict)) return value.dict_object().depth;
  return 0;
}

uint32_t checked_depth(uint32_t deepest_child) {
  if (deepest_child >= kMaxValueDepth) {
    fail_budget("lists or dicts nest deeper than " + std::to_string(kMaxValueDepth) + " (budget: depth)");
  }
  return deepest_child + 1;
}

}  // namespace

int64_t RangeObject::size() const {
  // Subtract as unsigned numbers, because the difference of start and stop may overflow a signed number.
  const auto ustart = static_cast<uint64_t>(start), ustop = static_cast<uint64_t>(stop);
  if (step > 0) {
    return start < stop ? static_cast<int64_t>((ustop - ustart - 1) / static_cast<uint64_t>(step) + 1) : 0;
  }
  return start > stop ? static_cast<int64_t>((ustart - ustop - 1) / (~static_cast<uint64_t>(step) + 1) + 1) : 0;
}

Value Value::undefined(std::string message) {
  Value value;
  auto object = std::make_shared<StringObject>();
  object->text = MarkedText(std::move(message), TextOrigin::kTemplate);
  value.object_ = std::move(object);
  return value;
}

Value Value::none() {
  Value value;
  value.kind_ = Kind::kNone;
  return value;
}

Value Value::boolean(bool b) {
  Value value;
  value.kind_ = Kind::kBool;
  value.integer_ = b ? 1 : 0;
  return value;
}

Value Value::integer(int64_t i) {
  Value value;
  value.kind_ = Kind::kInt;
  value.integer_ = i;
  return value;
}

Value Value::floating(double f) {
  Value value;
  value.kind_ = Kind::kFloat;
  value.float_ = f;
  return value;
}

Value Value::string(MarkedText text, bool markup) {
  Value value;
  value.kind_ = Kind::kString;
  auto object = std::make_shared<StringObject>();
  object->text = std::move(text);
  object->markup = markup;
  value.object_ = std::move(object);
  return value;
}

Value Value::text(std::string bytes, TextOrigin origin) { return string(MarkedText(std::move(bytes), origin)); }

Value Value::sequence(SequenceStyle style, Items items) {
  uint32_t deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, depth_of(item));
  Value value;
  value.kind_ = Kind::kSequence;
  auto object = std::make_shared<SequenceObject>();
  object->style = style;
  object->depth = checked_depth(deepest);
  object->items = std::move(items);
  value.object_ = std::move(object);
  return value;
}

Value Value::dict(std::vector<Entry> entries) {
  uint32_t deepest = 0;
  for (const Entry& entry : entries) deepest = std::max({deepest, depth_of(entry.first), depth_of(entry.second)});
  Value value;
  value.kind_ = Kind::kDict;
  auto object = std::make_shared<DictObject>();
  object->depth = checked_depth(deepest);
  object->entries = std::move(entries);
  value.object_ = std::move(object);
  return value;
}

Value Value::json(const Json& json, const JsonSource& source) {
  switch (json.type()) {
    case Json::value_t::boolean: return boolean(json.get<bool>());
    case Json::value_t::number_integer: return integer(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(INT64_MAX)) return floating(static_cast<double>(number));
      return integer(static_cast<int64_t>(number));
    }
    case Json::value_t::number_float: return floating(json.get<double>());
    case Json::value_t::string: return text(json.get_ref<const std::string&>(), source.origin);
    case Json::value_t::array:
    case Json::value_t::object: {
      Value value;
      value.kind_ = json.is_array() ? Kind::kJsonList : Kind::kJsonDict;
      value.json_ = &json;
      value.source_ = source;
      return value;
    }
    default: return none();
  }
}

Value Value::messages(size_t first) {
  Value value;
  value.kind_ = Kind::kMessages;
  value.integer_ = static_cast<int64_t>(first);
  return value;
}

Value Value::range(int64_t start, int64_t stop, int64_t step) {
  Value value;
  value.kind_ = Kind::kRange;
  auto object = std::make_shared<RangeObject>();
  object->start = start;
  object->stop = stop;
  object->step = step;
  value.object_ = std::move(object);
  return value;
}

Value Value::name_space(size_t index) {
  Value value;
  value.kind_ = Kind::kNamespace;
  value.integer_ = static_cast<int64_t>(index);
  return value;
}

Value Value::macro(const MacroNode* node, std::shared_ptr<Frame> closure) {
  Value value;
  value.kind_ = Kind::kMacro;
  auto object = std::make_shared<MacroObject>();
  object->node = node;
  object->closure = std::move(closure);
  value.object_ = std::move(object);
  return value;
}

Value Value::function(std::string name, Function function) {
  Value value;
  value.kind_ = Kind::kFunction;
  auto object = std::make_shared<FunctionObject>();
  object->name = std::move(name);
  object->function = function;
  value.object_ = std::move(object);
  return value;
}

Value Value::method(Value self, Method method) {
  Value value;
  value.kind_ = Kind::kMethod;
  auto object = std::make_shared<MethodObject>();
  object->self = std::move(self);
  object->method = method;
  value.object_ = std::move(object);
  return value;
}

Value Value::loop(std::shared_ptr<LoopObject> loop) {
  Value value;
  value.kind_ = Kind::kLoop;
  value.object_ = std::move(loop);
  return value;
}

LoopObject& Value::loop_object() const {
  // The cast is needed because a loop advances. Only loops and generators change after they were made.
  return const_cast<LoopObject&>(object<LoopObject>());
}

const Value& Value::method_self() const { return object<MethodObject>().self; }
Method Value::method_function() const { return object<MethodObject>().method; }

std::string Value::undefined_message() const {
  return object_ == nullptr ? "the value is undefined" : object<StringObject>().text.bytes();
}

}  // namespace ibid::jinja
