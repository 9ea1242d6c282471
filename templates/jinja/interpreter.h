// Interpreter: runs a Program. One object per render.
//
// Throws Failure inside; run() is the border. Expressions are in evaluate.cc, subscript.cc and calls.cc,
// statements in execute.cc, loops in loops.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/jinja/checkpoint.h"
#include "templates/jinja/program.h"
#include "templates/jinja/state.h"

namespace ibid::jinja {

struct RunInput {
  const Json* messages = nullptr;   // nullptr: a plain render, in which no variable is special
  const Json* variables = nullptr;  // an object
  const Json* defaults = nullptr;   // an object of what the model's files define; may be nullptr
  bool generation_prompt = false;   // with messages: the variable add_generation_prompt
  std::string_view now;             // ISO 8601
  TemplateBudget budget;
  // --- Incremental renders. `resume` must be usable() for `messages`; its JSON values point into `variables`
  // and `defaults`, which must be the same objects as when it was taken.
  const Checkpoint* resume = nullptr;
  bool take_checkpoints = false;
};

struct RunOutput {
  MarkedText text;  // what was printed; of a resumed run, after the checkpoint
  std::vector<Checkpoint> checkpoints;
  size_t message_iterations = 0;  // iterations of loops over the messages
  uint64_t steps = 0;
};

// Errors: kTemplateError, kTemplateRaise (the template's own words), kTemplateBudget.
Result<RunOutput> run(const Program& program, const RunInput& input);

class Interpreter {
 public:
  Interpreter(const Program& program, const RunInput& input);

  RunOutput run();

  // --- For filters, tests, functions and methods.
  RenderState& state() { return state_; }
  std::string_view now() const { return input_.now; }
  Value call(const Value& callee, const Arguments& arguments);
  Value apply_filter(const std::string& name, const Value& subject, const Arguments& arguments);
  bool apply_test(const std::string& name, const Value& subject, const Arguments& arguments);
  // object.name and object[key], as Jinja's sandbox resolves them: undefined where there is nothing.
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  Value make_namespace(Attributes attributes);

  // --- Loops.
  Value loop_attribute(LoopObject& loop, std::string_view name);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // --- Expressions.
  Value evaluate(const Expr& expr, const FramePtr& frame);
  Value evaluate_name(Symbol symbol, const FramePtr& frame);
  Value context_variable(Symbol symbol);
  Value evaluate_concat(const Expr& expr, const FramePtr& frame);
  Value evaluate_compare(const Expr& expr, const FramePtr& frame);
  Value evaluate_dict(const Expr& expr, const FramePtr& frame);
  Items evaluate_all(const std::vector<ExprPtr>& exprs, const FramePtr& frame);
  Value evaluate_slice(const Expr& expr, const FramePtr& frame);
  Value evaluate_call(const Expr& expr, const FramePtr& frame);
  Value evaluate_filter(const Expr& expr, const Value& subject, const FramePtr& frame);
  Value evaluate_test(const Expr& expr, const FramePtr& frame);
  Arguments evaluate_arguments(const CallArguments& args, const FramePtr& frame);
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  Value slice_messages(const Value& object, const Value& start, const Value& stop, const Value& step);
  Value indexed(const Value& object, const Value& key);
  Value call_macro(const MacroObject& macro, const Arguments& arguments);
  void bind_parameters(const MacroNode& node, const Arguments& arguments, const FramePtr& frame);

  // --- Statements.
  Flow execute(const Stmt& stmt, const FramePtr& frame);
  Flow execute_body(const Body& body, const FramePtr& frame);
  Flow execute_if(const Stmt& stmt, const FramePtr& frame);
  void execute_set_block(const Stmt& stmt, const FramePtr& frame);
  void execute_call_block(const Stmt& stmt, const FramePtr& frame);
  void execute_with(const Stmt& stmt, const FramePtr& frame);
  Value through_filters(const std::vector<ExprPtr>& filters, Value value, const FramePtr& frame);
  size_t choose_branch(const Stmt& stmt, const FramePtr& frame);
  void assign(const Expr& target, Value value, const FramePtr& frame);
  void assign_field(const Expr& target, Value value, const FramePtr& frame);
  void print(const Value& value);
  void print(std::string_view text);
  template <typename Body>
  MarkedText capture(Body&& body);
  static FramePtr inner(const FramePtr& frame);
  std::shared_ptr<Frame> closure_of(const FramePtr& frame);

  // The statements outside of everything but {% if %}, where loops over the messages can be resumed.
  void execute_outermost(const Body& body, size_t level, const Checkpoint* resume);

  // --- Loops.
  void execute_for(const Stmt& stmt, const FramePtr& frame, const Checkpoint* resume, bool outermost);
  std::shared_ptr<LoopObject> start_loop(const Stmt& stmt, const FramePtr& frame, const Value& sequence);
  void run_loop(const Stmt& stmt, const FramePtr& frame, const std::shared_ptr<LoopObject>& loop,
                CheckpointRecorder* recorder);
  std::optional<Value> fetch(LoopObject& loop);
  bool advance(LoopObject& loop);
  bool is_last(LoopObject& loop);
  size_t loop_length(LoopObject& loop);
  Value call_loop(LoopObject& loop, const Arguments& arguments);
  void restore(const Checkpoint& checkpoint);

  const Program& program_;
  const RunInput& input_;
  RenderState state_;
  std::vector<std::optional<Value>> context_;  // variables that were looked up, by symbol
  MarkedText output_;
  MarkedText* sink_ = &output_;  // output_, or what a block captures
  Path path_;                      // of the outermost statement that runs
  size_t output_base_ = 0;         // bytes printed before the checkpoint
  std::vector<Checkpoint> checkpoints_;
};

template <typename Body>
MarkedText Interpreter::capture(Body&& body) {
  MarkedText captured;
  MarkedText* const outer = std::exchange(sink_, &captured);
  body();  // a Failure ends the whole render, so sink_ need not be restored then
  sink_ = outer;
  return captured;
}

}  // namespace ibid::jinja
