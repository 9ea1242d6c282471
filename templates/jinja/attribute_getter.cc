#include "templates/jinja/attribute_getter.h"

#include <algorithm>

#include "templates/jinja/number_text.h"
#include "templates/jinja/text_ops.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {

AttributeGetter::AttributeGetter(Evaluator& evaluator, const Value* attribute, bool ignore_case,
                                 std::optional<Value> fallback)
    : evaluator_(evaluator), ignore_case_(ignore_case), fallback_(std::move(fallback)) {
  if (attribute == nullptr || attribute->is_none()) return;
  if (!attribute->is_string()) {
    parts_.push_back(*attribute);
    return;
  }
  for (MarkedText& part : split(evaluator.state(), attribute->as_string(), ".", -1, false)) {
    const bool is_number = !part.empty() && part.bytes().find_first_not_of("0123456789") == std::string::npos;
    const auto index = is_number ? parse_int(part.view()) : std::nullopt;
    parts_.push_back(index ? Value::integer(*index) : Value::string(std::move(part)));
  }
}

Value AttributeGetter::operator()(const Value& item) {
  Value value = item;
  for (const Value& part : parts_) {
    value = evaluator_.item(value, part);
    if (fallback_ && value.is_undefined()) value = *fallback_;
  }
  if (ignore_case_ && value.is_string())
    return Value::string(change_case(value.as_string(), CaseChange::kLower));
  return value;
}

Items AttributeGetter::all(std::vector<AttributeGetter>& getters, const Value& item) {
  Items keys;
  for (AttributeGetter& getter : getters) keys.push_back(getter(item));
  return keys;
}

std::vector<AttributeGetter> attribute_getters(Evaluator& evaluator, const Value* attribute,
                                               bool ignore_case) {
  std::vector<AttributeGetter> getters;
  if (attribute == nullptr || !attribute->is_string()) {
    getters.emplace_back(evaluator, attribute, ignore_case);
    return getters;
  }
  for (MarkedText& part : split(evaluator.state(), attribute->as_string(), ",", -1, false)) {
    const Value name = Value::string(std::move(part));
    getters.emplace_back(evaluator, &name, ignore_case);
  }
  return getters;
}

}  // namespace ibid::jinja
