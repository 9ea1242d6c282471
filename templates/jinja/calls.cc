// Calls, filters and tests of evaluator.h.
#include "templates/jinja/collections.h"
#include "templates/jinja/cyclers.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/executor.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/filters.h"
#include "templates/jinja/test_functions.h"

namespace ibid::jinja {

Arguments Evaluator::evaluate_arguments(const CallArguments& args, const FramePtr& frame) {
  Arguments out;
  for (const ExprPtr& expr : args.positional) out.positional.push_back(evaluate(*expr, frame));
  for (const auto& [name, expr] : args.named) out.named.emplace_back(name, evaluate(*expr, frame));
  if (args.unpacked_list != nullptr) {
    for (Value& value : iterate(state_, evaluate(*args.unpacked_list, frame)))
      out.positional.push_back(std::move(value));
  }
  if (args.unpacked_dict != nullptr) {
    const Value dict = evaluate(*args.unpacked_dict, frame);
    out.name_origin = origin_of(dict);
    if (!dict.is_dict()) fail("argument after ** must be a mapping, not " + std::string(type_name(dict)));
    for (size_t i = 0; i < dict_size(dict); ++i) {
      auto [key, value] = dict_entry(dict, i);
      if (!key.is_string()) fail("keywords must be strings");
      out.named.emplace_back(key.bytes(), std::move(value));
    }
  }
  return out;
}

Value Evaluator::evaluate_call(const Expr& expr, const FramePtr& frame) {
  const Value callee = evaluate(*expr.children[0], frame);
  return call(callee, evaluate_arguments(*expr.args, frame));
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  state_.meter.step();
  switch (callee.kind()) {
    case Kind::kUndefined: fail(callee.undefined_message());
    case Kind::kFunction: return callee.function_object().function(*this, arguments);
    case Kind::kMethod: return callee.method_function()(*this, callee.method_self(), arguments);
    case Kind::kMacro: return call_macro(callee.macro_object(), arguments);
    case Kind::kNamespace:
      if (is_joiner(state_, callee)) return call_joiner(state_, callee, arguments);
      break;
    case Kind::kLoop: return executor_.call_loop(callee.loop_object(), arguments);
    default: break;
  }
  fail("'" + std::string(type_name(callee)) + "' object is not callable");
}

void Evaluator::bind_parameters(const MacroNode& node, const Arguments& arguments, const FramePtr& frame) {
  const size_t n = node.parameters.size();
  std::vector<bool> given(n, false);
  for (size_t i = 0; i < arguments.positional.size() && i < n; ++i) {
    frame->set(node.parameters[i].second, arguments.positional[i]);
    given[i] = true;
  }
  DictBuilder kwargs(state_);
  bool has_caller = false;
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < n && node.parameters[i].first != name) ++i;
    if (i < n) {
      if (given[i]) fail("macro '" + node.name + "' got multiple values for argument '" + name + "'");
      frame->set(node.parameters[i].second, value);
      given[i] = true;
    } else if (name == "caller" && node.uses_caller) {
      frame->set(Program::kCallerSymbol, value);
      has_caller = true;
    } else if (node.uses_kwargs) {
      kwargs.set(Value::text(name, arguments.name_origin), resolve_messages(state_, value));
    } else {
      fail("macro '" + node.name + "' takes no keyword argument '" + name + "'");
    }
  }
  if (arguments.positional.size() > n && !node.uses_varargs) {
    fail("macro '" + node.name + "' takes not more than " + std::to_string(n) + " argument(s)");
  }
  if (node.uses_varargs) {
    Items extra;
    for (size_t i = n; i < arguments.positional.size(); ++i) {
      extra.push_back(resolve_messages(state_, arguments.positional[i]));
    }
    frame->set(Program::kVarargsSymbol, Value::tuple(std::move(extra)));
  }
  if (node.uses_kwargs) frame->set(Program::kKwargsSymbol, kwargs.build());
  if (node.uses_caller && !has_caller)
    frame->set(Program::kCallerSymbol, Value::undefined("No caller defined"));
  // Defaults may use the parameters before them.
  const size_t first_default = n - node.defaults.size();
  for (size_t i = 0; i < n; ++i) {
    if (given[i]) continue;
    const auto& [name, symbol] = node.parameters[i];
    frame->set(symbol, i >= first_default ? evaluate(*node.defaults[i - first_default], frame)
                                          : Value::undefined("parameter '" + name + "' was not provided"));
  }
}

Value Evaluator::call_macro(const MacroObject& macro, const Arguments& arguments) {
  const auto level = state_.meter.enter_call();
  const FramePtr frame = inner_scope(macro.closure != nullptr ? macro.closure : state_.root);
  bind_parameters(*macro.node, arguments, frame);
  const int line = state_.line;
  MarkedText text = executor_.render(macro.node->body, frame);
  state_.line = line;
  return Value::string(std::move(text));
}

Value Evaluator::evaluate_filter(const Expr& expr, const Value& subject, const FramePtr& frame) {
  if (expr.filter == nullptr) fail(no_filter(expr.text));
  const Arguments arguments = evaluate_arguments(*expr.args, frame);
  return expr.filter(*this, subject, arguments);
}

Value Evaluator::evaluate_test(const Expr& expr, const FramePtr& frame) {
  const Value subject = evaluate(*expr.children[0], frame);
  if (expr.test == nullptr) fail("No test named '" + expr.text + "'.");
  return Value::boolean(expr.test(*this, subject, evaluate_arguments(*expr.args, frame)));
}

Value Evaluator::apply_filter(const std::string& name, const Value& subject, const Arguments& arguments) {
  state_.meter.step();
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail(no_filter(name));
  return filter(*this, subject, arguments);
}

bool Evaluator::apply_test(const std::string& name, const Value& subject, const Arguments& arguments) {
  state_.meter.step();
  const Test test = find_test(name);
  if (test == nullptr) fail("No test named '" + name + "'.");
  return test(*this, subject, arguments);
}

}  // namespace ibid::jinja
