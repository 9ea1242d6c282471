// Evaluator: the values of expressions in one render, and what filters, tests, functions and methods are
// given to work with. It knows no statements: where an expression runs some, in a call of a macro or of a
// recursive loop, it asks the Executor.
//
// Throws Failure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/jinja/ast.h"
#include "templates/jinja/state.h"

namespace ibid::jinja {

// --- ContextVariables: the variables that a template did not set itself. The messages, what the caller passed, what
// the model's files define, and the functions that every template has. Each is made when it is first looked up.

class Program;
struct RunInput;

class ContextVariables {
 public:
  // All three must outlive it.
  ContextVariables(const Program& program, const RunInput& input, RenderState& state);

  // Undefined where there is none of this name.
  Value find(Symbol symbol);

 private:
  const Program& program_;
  const RunInput& input_;
  RenderState& state_;
  std::vector<std::optional<Value>> known_;  // those that were looked up, by symbol
};

class Executor;

class Evaluator {
 public:
  // All four must outlive it.
  Evaluator(const Program& program, const RunInput& input, RenderState& state, Executor& executor);
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // --- For filters, tests, functions and methods.
  RenderState& state() { return state_; }
  std::string_view now() const { return now_; }
  Value call(const Value& callee, const Arguments& arguments);
  Value apply_filter(const std::string& name, const Value& subject, const Arguments& arguments);
  bool apply_test(const std::string& name, const Value& subject, const Arguments& arguments);
  // object.name and object[key], as Jinja's sandbox resolves them: undefined where there is nothing.
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  Value make_namespace(Attributes attributes);

  // --- For statements.
  Value evaluate(const Expr& expr, const FramePtr& frame);
  Arguments evaluate_arguments(const CallArguments& args, const FramePtr& frame);
  // A filter of a filter block: what it is applied to is no expression.
  Value evaluate_filter(const Expr& expr, const Value& subject, const FramePtr& frame);
  // Sets a variable, a field of a namespace, or each of a tuple of them.
  void assign(const Expr& target, Value value, const FramePtr& frame);

 private:
  Value evaluate_name(Symbol symbol, const FramePtr& frame);
  Value evaluate_concat(const Expr& expr, const FramePtr& frame);
  Value evaluate_compare(const Expr& expr, const FramePtr& frame);
  Value evaluate_dict(const Expr& expr, const FramePtr& frame);
  Items evaluate_all(const std::vector<ExprPtr>& exprs, const FramePtr& frame);
  Value evaluate_slice(const Expr& expr, const FramePtr& frame);
  Value evaluate_call(const Expr& expr, const FramePtr& frame);
  Value evaluate_test(const Expr& expr, const FramePtr& frame);
  Value call_macro(const MacroObject& macro, const Arguments& arguments);
  void bind_parameters(const MacroNode& node, const Arguments& arguments, const FramePtr& frame);
  void assign_field(const Expr& target, Value value, const FramePtr& frame);

  RenderState& state_;
  std::string_view now_;
  ContextVariables variables_;
  Executor& executor_;
};

}  // namespace ibid::jinja
