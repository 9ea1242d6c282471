#include "templates/jinja/operations.h"

#include <algorithm>
#include <cmath>

#include "templates/jinja/value.h"

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
  fail("'" + std::string(sign) + "' not supported between instances of '" + std::string(type_name(a)) + "' and '" +
       std::string(type_name(b)) + "'");
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
    case Kind::kSequence: return value.is_style(SequenceStyle::kGenerator) || !value.sequence_object().items.empty();
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
  if (!is_iterable(container)) fail("argument of type '" + std::string(type_name(container)) + "' is not iterable");
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
    // Do not use !(b < a), which would be true for NaN.
    case CompareOp::kLe: return less(state, a, b, "<=") || equals(state, a, b);
    case CompareOp::kGe: return less(state, b, a, ">=") || equals(state, a, b);
    case CompareOp::kIn: return contains(state, b, a);
    case CompareOp::kNotIn: return !contains(state, b, a);
  }
  return false;
}

namespace {

[[noreturn]] void fail_operands(const char* sign, const Value& a, const Value& b) {
  if (a.is_undefined()) fail(a.undefined_message());
  if (b.is_undefined()) fail(b.undefined_message());
  fail("unsupported operand type(s) for " + std::string(sign) + ": '" + std::string(type_name(a)) + "' and '" +
       std::string(type_name(b)) + "'");
}

[[noreturn]] void fail_overflow() { fail("integers beyond 64 bits are not supported"); }

Value concatenate_strings(RenderState& state, const Value& a, const Value& b) {
  state.meter.create(a.bytes().size() + b.bytes().size());
  const bool markup = a.is_markup() || b.is_markup();
  MarkedText text = markup && !a.is_markup() ? escape_html(a.as_string()) : a.as_string();
  text.append(markup && !b.is_markup() ? escape_html(b.as_string()) : b.as_string());
  return Value::string(std::move(text), markup);
}

Value concatenate_sequences(RenderState& state, const Value& a, const Value& b) {
  Items items;
  const size_t n_a = indexable_size(a), n_b = indexable_size(b);
  state.meter.create((n_a + n_b) * sizeof(Value));
  items.reserve(n_a + n_b);
  for (size_t i = 0; i < n_a; ++i) items.push_back(element(a, i));
  for (size_t i = 0; i < n_b; ++i) items.push_back(element(b, i));
  return Value::sequence(a.is_tuple() ? SequenceStyle::kTuple : SequenceStyle::kList, std::move(items));
}

Value add(RenderState& state, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a.as_int(), b.as_int(), &sum)) fail_overflow();
    return Value::integer(sum);
  }
  if (a.is_number() && b.is_number()) return Value::floating(a.as_double() + b.as_double());
  if (a.is_string() && b.is_string()) return concatenate_strings(state, a, b);
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) return concatenate_sequences(state, a, b);
  if (b.is_undefined()) fail(b.undefined_message());
  if (a.is_string() || a.is_list() || a.is_tuple()) {
    const std::string type = a.is_string() ? "str" : a.is_list() ? "list" : "tuple";
    fail("can only concatenate " + type + " (not \"" + std::string(type_name(b)) + "\") to " + type);
  }
  fail_operands("+", a, b);
}

Value repeat(RenderState& state, const Value& subject, int64_t times) {
  const uint64_t n = times > 0 ? static_cast<uint64_t>(times) : 0;
  if (subject.is_string()) {
    const MarkedText& unit = subject.as_string();
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(unit.size(), n, &bytes)) bytes = UINT64_MAX;
    state.meter.check_string(bytes);
    state.meter.create(bytes);
    MarkedText text;
    if (!unit.empty()) {
      for (uint64_t i = 0; i < n; ++i) text.append(unit);
    }
    return Value::string(std::move(text), subject.is_markup());
  }
  const size_t size = indexable_size(subject);
  if (size != 0 && n > state.meter.max_range() / size) {
    fail_budget("a list of more than " + std::to_string(state.meter.max_range()) + " items (budget: range)");
  }
  state.meter.create(size * n * sizeof(Value));
  Items items;
  for (uint64_t k = 0; size != 0 && k < n; ++k) {
    for (size_t i = 0; i < size; ++i) items.push_back(element(subject, i));
  }
  return Value::sequence(subject.is_tuple() ? SequenceStyle::kTuple : SequenceStyle::kList, std::move(items));
}

Value multiply(RenderState& state, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a.as_int(), b.as_int(), &product)) fail_overflow();
    return Value::integer(product);
  }
  if (a.is_number() && b.is_number()) return Value::floating(a.as_double() * b.as_double());
  const auto repeats = [](const Value& v) { return v.is_string() || v.is_list() || v.is_tuple(); };
  if (repeats(a) && b.is_integral()) return repeat(state, a, b.as_int());
  if (a.is_integral() && repeats(b)) return repeat(state, b, a.as_int());
  fail_operands("*", a, b);
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) {
    int64_t negated = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &negated)) fail_overflow();
    return negated;
  }
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value divide(ExprKind op, const Value& a, const Value& b) {
  const char* sign = op == ExprKind::kDiv ? "/" : op == ExprKind::kFloorDiv ? "//" : "%";
  if (!a.is_number() || !b.is_number()) fail_operands(sign, a, b);
  if (b.as_double() == 0) fail(op == ExprKind::kDiv ? "division by zero" : "integer division or modulo by zero");
  if (op == ExprKind::kDiv) return Value::floating(a.as_double() / b.as_double());
  if (a.is_integral() && b.is_integral()) {
    return Value::integer(op == ExprKind::kFloorDiv ? floor_divide(a.as_int(), b.as_int())
                                                    : modulo(a.as_int(), b.as_int()));
  }
  if (op == ExprKind::kMod) return Value::floating(modulo(a.as_double(), b.as_double()));
  // Computes the quotient from the remainder, as Python does, so that a == (a // b) * b + a % b.
  const double quotient = (a.as_double() - modulo(a.as_double(), b.as_double())) / b.as_double();
  return Value::floating(std::floor(quotient + 0.5));
}

Value power(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) fail_operands("** or pow()", a, b);
  if (a.is_integral() && b.is_integral() && b.as_int() >= 0) {
    int64_t result = 1, base = a.as_int();
    for (int64_t exponent = b.as_int(); exponent > 0; exponent >>= 1) {
      if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
      if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
    }
    return Value::integer(result);
  }
  if (a.as_double() == 0 && b.as_double() < 0) fail("0.0 cannot be raised to a negative power");
  const double result = std::pow(a.as_double(), b.as_double());
  if (std::isnan(result) && !std::isnan(a.as_double()) && !std::isnan(b.as_double())) {
    fail("a negative number to a fractional power is complex");
  }
  return Value::floating(result);
}

Value subtract(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(a.as_int(), b.as_int(), &difference)) fail_overflow();
    return Value::integer(difference);
  }
  if (!a.is_number() || !b.is_number()) fail_operands("-", a, b);
  return Value::floating(a.as_double() - b.as_double());
}

[[noreturn]] void fail_unary(const char* sign, const Value& value) {
  if (value.is_undefined()) fail(value.undefined_message());
  fail("bad operand type for unary " + std::string(sign) + ": '" + std::string(type_name(value)) + "'");
}

}  // namespace

Value arithmetic(RenderState& state, ExprKind op, const Value& a, const Value& b) {
  switch (op) {
    case ExprKind::kAdd: return add(state, a, b);
    case ExprKind::kSub: return subtract(a, b);
    case ExprKind::kMul: return multiply(state, a, b);
    case ExprKind::kPow: return power(a, b);
    case ExprKind::kMod:
      if (a.is_string()) return format_percent(state, a, b);
      return divide(op, a, b);
    default: return divide(op, a, b);
  }
}

Value negate(const Value& value) {
  if (value.is(Kind::kFloat)) return Value::floating(-value.as_double());
  if (!value.is_integral()) fail_unary("-", value);
  return subtract(Value::integer(0), value);
}

Value plus(const Value& value) {
  if (!value.is_number()) fail_unary("+", value);
  return value.is(Kind::kBool) ? Value::integer(value.as_int()) : value;
}

}  // namespace ibid::jinja
