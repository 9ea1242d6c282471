#include "templates/jinja/operators.h"

#include <algorithm>

#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"

namespace ibid::jinja {
namespace {

bool same_sequences(RenderState& state, const Value& a, const Value& b) {
  const size_t size = indexable_size(a);
  if (size != indexable_size(b)) return false;
  for (size_t i = 0; i < size; ++i) {
    if (!equals(state, element(a, i), element(b, i))) return false;
  }
  return true;
}

bool same_dicts(RenderState& state, const Value& a, const Value& b) {
  if (dict_size(a) != dict_size(b)) return false;
  for (size_t i = 0; i < dict_size(a); ++i) {
    const auto [key, value] = dict_entry(a, i);
    const auto other = dict_find(state, b, key);
    if (!other || !equals(state, value, *other)) return false;
  }
  return true;
}

bool same_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  return a.as_double() == b.as_double();
}

[[noreturn]] void fail_order(const char* sign, const Value& a, const Value& b) {
  fail("'" + std::string(sign) + "' not supported between instances of '" + std::string(type_name(a)) +
       "' and '" + std::string(type_name(b)) + "'");
}

bool sequence_less(RenderState& state, const Value& a, const Value& b, const char* sign) {
  const size_t common = std::min(indexable_size(a), indexable_size(b));
  for (size_t i = 0; i < common; ++i) {
    state.meter.step();
    const Value x = element(a, i), y = element(b, i);
    if (!equals(state, x, y)) return less(state, x, y, sign);
  }
  return indexable_size(a) < indexable_size(b);
}

}  // namespace

bool truthy(RenderState& state, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.as_int() != 0;
    case Kind::kFloat: return value.as_double() != 0;
    case Kind::kString: return !value.as_string().empty();
    case Kind::kSequence:
      return value.is_style(SequenceStyle::kGenerator) || !value.sequence_object().items.empty();
    case Kind::kDict:
    case Kind::kJsonDict: return dict_size(value) != 0;
    case Kind::kJsonList:
    case Kind::kRange: return indexable_size(value) != 0;
    case Kind::kMessages: return state.has_message(value.index());
    default: return true;
  }
}

bool equals(RenderState& state, const Value& a, const Value& b) {
  const auto level = state.meter.enter_node();
  state.meter.step();
  if (a.is(Kind::kMessages) || b.is(Kind::kMessages)) {
    return equals(state, resolve_messages(state, a), resolve_messages(state, b));
  }
  if (a.is_number() && b.is_number()) return same_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    state.meter.scan(std::min(a.bytes().size(), b.bytes().size()));
    return a.bytes() == b.bytes();
  }
  if (a.is_dict() && b.is_dict()) return same_dicts(state, a, b);
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) return same_sequences(state, a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kNamespace: return a.index() == b.index();
    case Kind::kRange: return same_sequences(state, a, b);
    default: return a.identity() == b.identity() && a.identity() != nullptr;
  }
}

bool less(RenderState& state, const Value& a, const Value& b, const char* sign) {
  const auto level = state.meter.enter_node();
  if (a.is_undefined()) fail(a.undefined_message());
  if (b.is_undefined()) fail(b.undefined_message());
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.as_int() < b.as_int() : a.as_double() < b.as_double();
  }
  if (a.is_string() && b.is_string()) {
    state.meter.scan(std::min(a.bytes().size(), b.bytes().size()));
    return a.bytes() < b.bytes();  // the order of UTF-8 bytes is that of code points
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) return sequence_less(state, a, b, sign);
  if (a.is(Kind::kMessages) || b.is(Kind::kMessages)) {
    return less(state, resolve_messages(state, a), resolve_messages(state, b), sign);
  }
  fail_order(sign, a, b);
}

bool contains(RenderState& state, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (item.is_undefined()) fail(item.undefined_message());
    if (!item.is_string()) {
      fail("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
    }
    state.meter.scan(container.bytes().size());
    return container.bytes().find(item.bytes()) != std::string::npos;
  }
  if (container.is_dict()) return dict_find(state, container, item).has_value();
  if (!is_iterable(container))
    fail("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  if (is_indexable(container)) {
    for (size_t i = 0; i < indexable_size(container); ++i) {
      if (equals(state, element(container, i), item)) return true;
    }
    return false;
  }
  for (const Value& element : iterate(state, container)) {
    if (equals(state, element, item)) return true;
  }
  return false;
}

bool compare(RenderState& state, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEq: return equals(state, a, b);
    case CompareOp::kNe: return !equals(state, a, b);
    case CompareOp::kLt: return less(state, a, b, "<");
    case CompareOp::kGt: return less(state, b, a, ">");
    // not b < a would be true for NaN.
    case CompareOp::kLe: return less(state, a, b, "<=") || equals(state, a, b);
    case CompareOp::kGe: return less(state, b, a, ">=") || equals(state, a, b);
    case CompareOp::kIn: return contains(state, b, a);
    case CompareOp::kNotIn: return !contains(state, b, a);
  }
  return false;
}

}  // namespace ibid::jinja
