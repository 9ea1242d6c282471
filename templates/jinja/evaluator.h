// Evaluator: evaluates the expressions of one render, for the Executor, filters, tests, functions and methods. Calls
// the Executor for expressions that run statements (calls of macros and recursive loops). Throws Failure.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/jinja/ast.h"
#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

// --- ContextVariables: the variables that a template did not set itself: the messages, the caller's variables, the
// defaults from the model's files, and global functions. Each is created when it is first used.

class Program;
struct RunInput;

class ContextVariables {
 public:
  // All arguments must outlive the object.
  ContextVariables(const Program& program, const RunInput& input, RenderState& state);

  // Returns the value of a variable; undefined for an unknown name.
  Value find(Symbol symbol);

 private:
  const Program& program_;
  const RunInput& input_;
  RenderState& state_;
  std::vector<std::optional<Value>> known_;  // variables looked up so far, indexed by symbol
};

class Executor;

class Evaluator {
 public:
  // All arguments must outlive the object.
  Evaluator(const Program& program, const RunInput& input, RenderState& state, Executor& executor);
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // --- Called by filters, tests, functions and methods.
  RenderState& state() { return state_; }
  std::string_view now() const { return now_; }
  Value call(const Value& callee, const Arguments& arguments);
  Value apply_filter(const std::string& name, const Value& subject, const Arguments& arguments);
  bool apply_test(const std::string& name, const Value& subject, const Arguments& arguments);
  // Returns object.name or object[key] as Jinja's sandbox resolves it; undefined if it is missing.
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  Value make_namespace(Attributes attributes);

  // --- Called by the Executor.
  Value evaluate(const Expr& expr, const FramePtr& frame);
  Arguments evaluate_arguments(const CallArguments& args, const FramePtr& frame);
  // Applies a filter of a {% filter %} block to the block's output, `subject`.
  Value evaluate_filter(const Expr& expr, const Value& subject, const FramePtr& frame);
  // Sets a variable, a field of a namespace, or each target of a tuple.
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

// --- LoopObject: the state of a {% for %}, and its variable `loop`. Fetches elements lazily, with Jinja's one-element
// look-ahead. The filter of a loop ({% for x in xs if test %}) is an expression, so fetching needs an Evaluator.

struct LoopObject : Object, std::enable_shared_from_this<LoopObject> {
  const Stmt* stmt = nullptr;
  std::weak_ptr<Frame> frame;  // the frame that contains the loop
  Value sequence;              // iterated lazily: messages, JSON lists, lists, ranges
  size_t position = 0;         // index of the next element to fetch from `sequence` or, for messages, from their array
  size_t size = 0;             // length of `sequence`, unless it is the messages
  std::deque<Value> ahead;     // elements that were fetched from the sequence, but not iterated yet
  bool started = false;
  bool completed = false;  // true if an iteration ended without {% break %} or {% continue %}
  size_t index0 = 0;
  Value previous, current;  // undefined before the first and after the last element
  size_t depth0 = 0;        // nesting depth of a recursive loop, counted from 0
  Items changed;            // arguments of the last loop.changed()
  bool has_changed = false;

  bool over_messages() const { return sequence.is(Kind::kMessages); }
};

// Returns a loop over `sequence`, before its first element.
std::shared_ptr<LoopObject> start_loop(RenderState& state, const Stmt& stmt, const FramePtr& frame,
                                       const Value& sequence);
// Advances to the next element; returns false at the end.
bool advance(Evaluator& evaluator, LoopObject& loop);
// Returns loop.index, loop.last ...; undefined for other names.
Value loop_attribute(Evaluator& evaluator, LoopObject& loop, std::string_view name);

}  // namespace ibid::jinja
