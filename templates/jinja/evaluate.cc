// Expressions of interpreter.h.
#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/globals.h"
#include "templates/jinja/interpreter.h"
#include "templates/jinja/operators.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {
namespace {

// Names of variables whose text is the model's own (bos_token, eos_token, ...): it may become control tokens.
// What else a caller passes may come from a request, so it is input.
bool is_token_variable(std::string_view name) {
  return name.ends_with("_token") || name.ends_with("_tokens");
}

}  // namespace

Value Interpreter::context_variable(Symbol symbol) {
  const std::string& name = program_.name(symbol);
  if (input_.messages != nullptr) {
    if (name == "messages") return Value::messages(0);
    if (name == "add_generation_prompt") {
      state_.reads.generation_prompt = true;
      return Value::boolean(input_.generation_prompt);
    }
  }
  std::optional<Value>& cached = context_[symbol];
  if (cached) return *cached;
  JsonSource source;
  if (const auto it = input_.variables->find(name); it != input_.variables->end()) {
    source.origin = is_token_variable(name) ? TextOrigin::kTemplate : TextOrigin::kInput;
    cached = Value::json(*it, source);
  } else if (input_.defaults != nullptr && input_.defaults->contains(name)) {
    source.origin = TextOrigin::kTemplate;
    cached = Value::json(input_.defaults->find(name).value(), source);
  } else if (input_.messages != nullptr && (name == "tools" || name == "documents")) {
    cached = Value::none();  // defined, as transformers passes them
  } else if (const Function function = find_global(name); function != nullptr) {
    cached = Value::function(name, function);
  } else {
    cached = Value::undefined("'" + name + "' is undefined");
  }
  return *cached;
}

Value Interpreter::evaluate_name(Symbol symbol, const FramePtr& frame) {
  for (const Frame* scope = frame.get(); scope != nullptr; scope = scope->parent.get()) {
    if (const Value* value = scope->find(symbol)) return *value;
  }
  return context_variable(symbol);
}

Items Interpreter::evaluate_all(const std::vector<ExprPtr>& exprs, const FramePtr& frame) {
  state_.meter.create(exprs.size() * sizeof(Value));
  Items items;
  items.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) items.push_back(resolve_messages(state_, evaluate(*expr, frame)));
  return items;
}

Value Interpreter::evaluate_dict(const Expr& expr, const FramePtr& frame) {
  DictBuilder dict(state_);
  for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    const Value key = evaluate(*expr.children[i], frame);
    dict.set(key, resolve_messages(state_, evaluate(*expr.children[i + 1], frame)));
  }
  return dict.build();
}

Value Interpreter::evaluate_concat(const Expr& expr, const FramePtr& frame) {
  MarkedText text;
  for (const ExprPtr& child : expr.children) {
    const MarkedText piece = str(state_, evaluate(*child, frame));
    state_.meter.create(piece.size());
    text.append(piece);
  }
  state_.meter.check_string(text.size());
  return Value::string(std::move(text));
}

Value Interpreter::evaluate_compare(const Expr& expr, const FramePtr& frame) {
  Value left = evaluate(*expr.children[0], frame);
  for (size_t i = 0; i < expr.compare_ops.size(); ++i) {
    Value right = evaluate(*expr.children[i + 1], frame);
    if (!compare(state_, expr.compare_ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate(const Expr& expr, const FramePtr& frame) {
  const auto level = state_.meter.enter_node();
  state_.meter.step();
  const auto child = [&](size_t i) { return evaluate(*expr.children[i], frame); };
  switch (expr.kind) {
    case ExprKind::kConstant: return expr.constant;
    case ExprKind::kName: return evaluate_name(expr.symbol, frame);
    case ExprKind::kList: return Value::list(evaluate_all(expr.children, frame));
    case ExprKind::kTuple: return Value::tuple(evaluate_all(expr.children, frame));
    case ExprKind::kDict: return evaluate_dict(expr, frame);
    case ExprKind::kNot: return Value::boolean(!truthy(state_, child(0)));
    case ExprKind::kNegative: return negate(child(0));
    case ExprKind::kPositive: return plus(child(0));
    case ExprKind::kAnd: {
      Value left = child(0);
      return truthy(state_, left) ? child(1) : left;
    }
    case ExprKind::kOr: {
      Value left = child(0);
      return truthy(state_, left) ? left : child(1);
    }
    case ExprKind::kConcat: return evaluate_concat(expr, frame);
    case ExprKind::kCompare: return evaluate_compare(expr, frame);
    case ExprKind::kConditional:
      if (truthy(state_, child(0))) return child(1);
      if (expr.children[2] != nullptr) return child(2);
      return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
    case ExprKind::kAttribute: return attribute(child(0), expr.text);
    case ExprKind::kSubscript: {
      const Value object = child(0);
      return item(object, child(1));
    }
    case ExprKind::kSlice: return evaluate_slice(expr, frame);
    case ExprKind::kCall: return evaluate_call(expr, frame);
    case ExprKind::kFilter: return evaluate_filter(expr, child(0), frame);
    case ExprKind::kTest: return evaluate_test(expr, frame);
    case ExprKind::kNamespaceField: return attribute(evaluate_name(expr.symbol, frame), expr.text);
    default: {
      const Value left = resolve_messages(state_, child(0));
      return arithmetic(state_, expr.kind, left, resolve_messages(state_, child(1)));
    }
  }
}

}  // namespace ibid::jinja
