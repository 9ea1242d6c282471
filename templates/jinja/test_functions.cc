#include "templates/jinja/test_functions.h"

#include "base/utf8.h"
#include "templates/jinja/arguments.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/filters.h"
#include "templates/jinja/operators.h"
#include "templates/jinja/unicode_text.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {
namespace {

void no_arguments(const Arguments& args, const char* name) { const Parameters parameters(args, name, {}); }

// A test that needs nothing but the value.
template <bool (*kTest)(const Value&)>
bool simple(Evaluator&, const Value& value, const Arguments& args) {
  no_arguments(args, "test");
  return kTest(value);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is(Kind::kBool); }
bool is_true(const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }
bool is_false(const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }
bool is_integer(const Value& v) { return v.is(Kind::kInt); }
bool is_float(const Value& v) { return v.is(Kind::kFloat); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_string(); }
bool is_mapping(const Value& v) { return v.is_dict(); }
bool is_escaped(const Value& v) { return v.is_markup(); }
bool is_callable(const Value& v) {
  return v.is(Kind::kFunction) || v.is(Kind::kMacro) || v.is(Kind::kMethod) || v.is(Kind::kLoop) ||
         v.is_undefined();
}
// len() and [] exist; an undefined value has both, to fail in them.
bool is_sequence(const Value& v) {
  return v.is_undefined() || v.is_string() || v.is_dict() || v.is(Kind::kMessages) || is_indexable(v);
}

bool test_iterable(Evaluator&, const Value& value, const Arguments& args) {
  no_arguments(args, "iterable");
  return is_iterable(value);
}

template <CompareOp kOp>
bool test_compare(Evaluator& in, const Value& value, const Arguments& args) {
  const Parameters parameters(args, "comparison", {"other"}, 1);
  return compare(in.state(), kOp, value, parameters.at(0));
}

bool test_sameas(Evaluator& in, const Value& value, const Arguments& args) {
  const Parameters parameters(args, "sameas", {"other"}, 1);
  const Value& other = parameters.at(0);
  if (value.kind() != other.kind()) return false;
  if (value.is(Kind::kJsonList) || value.is(Kind::kJsonDict))
    return &value.json_value() == &other.json_value();
  if (value.identity() != nullptr) return value.identity() == other.identity();
  return equals(in.state(), value, other);
}

bool divides(Evaluator& in, const Value& value, const Value& divisor, int64_t wanted) {
  const Value rest = arithmetic(in.state(), ExprKind::kMod, value, divisor);
  return equals(in.state(), rest, Value::integer(wanted));
}

bool test_even(Evaluator& in, const Value& value, const Arguments& args) {
  no_arguments(args, "even");
  return divides(in, value, Value::integer(2), 0);
}

bool test_odd(Evaluator& in, const Value& value, const Arguments& args) {
  no_arguments(args, "odd");
  return divides(in, value, Value::integer(2), 1);
}

bool test_divisibleby(Evaluator& in, const Value& value, const Arguments& args) {
  const Parameters parameters(args, "divisibleby", {"num"}, 1);
  return divides(in, value, parameters.at(0), 0);
}

bool has_case(Evaluator& in, const Value& value, bool (*wanted)(uint32_t), bool (*unwanted)(uint32_t)) {
  const MarkedText text = str(in.state(), value);
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = utf8_decode(text.view(), i);
    if (unwanted(c.code_point) || is_title(c.code_point)) return false;
    any |= wanted(c.code_point);
    i += c.length;
  }
  return any;
}

bool test_lower(Evaluator& in, const Value& value, const Arguments& args) {
  no_arguments(args, "lower");
  return has_case(in, value, is_lower, is_upper);
}

bool test_upper(Evaluator& in, const Value& value, const Arguments& args) {
  no_arguments(args, "upper");
  return has_case(in, value, is_upper, is_lower);
}

bool test_filter(Evaluator&, const Value& value, const Arguments& args) {
  no_arguments(args, "filter");
  return value.is_string() && find_filter(value.bytes()) != nullptr;
}

bool test_test(Evaluator&, const Value& value, const Arguments& args) {
  no_arguments(args, "test");
  return value.is_string() && find_test(value.bytes()) != nullptr;
}

struct NamedTest {
  std::string_view name;
  Test test;
};

constexpr NamedTest kTests[] = {
    {"defined", simple<is_defined>},
    {"undefined", simple<is_undefined>},
    {"none", simple<is_none>},
    {"boolean", simple<is_boolean>},
    {"true", simple<is_true>},
    {"false", simple<is_false>},
    {"integer", simple<is_integer>},
    {"float", simple<is_float>},
    {"number", simple<is_number>},
    {"string", simple<is_string>},
    {"mapping", simple<is_mapping>},
    {"sequence", simple<is_sequence>},
    {"escaped", simple<is_escaped>},
    {"callable", simple<is_callable>},
    {"iterable", test_iterable},
    {"sameas", test_sameas},
    {"even", test_even},
    {"odd", test_odd},
    {"divisibleby", test_divisibleby},
    {"lower", test_lower},
    {"upper", test_upper},
    {"filter", test_filter},
    {"test", test_test},
    {"in", test_compare<CompareOp::kIn>},
    {"eq", test_compare<CompareOp::kEq>},
    {"equalto", test_compare<CompareOp::kEq>},
    {"==", test_compare<CompareOp::kEq>},
    {"ne", test_compare<CompareOp::kNe>},
    {"!=", test_compare<CompareOp::kNe>},
    {"lt", test_compare<CompareOp::kLt>},
    {"lessthan", test_compare<CompareOp::kLt>},
    {"<", test_compare<CompareOp::kLt>},
    {"le", test_compare<CompareOp::kLe>},
    {"<=", test_compare<CompareOp::kLe>},
    {"gt", test_compare<CompareOp::kGt>},
    {"greaterthan", test_compare<CompareOp::kGt>},
    {">", test_compare<CompareOp::kGt>},
    {"ge", test_compare<CompareOp::kGe>},
    {">=", test_compare<CompareOp::kGe>},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const NamedTest& entry : kTests) {
    if (entry.name == name) return entry.test;
  }
  return nullptr;
}

}  // namespace ibid::jinja
