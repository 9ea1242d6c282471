#include "templates/jinja/executor.h"

#include <new>
#include <utility>

#include "templates/jinja/evaluator.h"
#include "templates/jinja/interpreter.h"
#include "templates/jinja/operations.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

Executor::Executor(const Program& program, const RunInput& input)
    : program_(program),
      input_(input),
      state_(input.budget, input.messages, input.variables),
      evaluator_(program, input, state_, *this) {}

RunOutput Executor::run() {
  if (input_.resume != nullptr) restore(*input_.resume);
  try {
    execute_outermost(program_.body(), 0, input_.resume);
  } catch (Failure& failure) {
    if (failure.code != ErrorCode::kTemplateRaise && state_.line > 0) {
      failure.message = "template line " + std::to_string(state_.line) + ": " + failure.message;
    }
    throw;
  }
  return {std::move(output_), std::move(checkpoints_), state_.message_iterations, state_.meter.steps()};
}

void Executor::print(std::string_view text) {
  state_.meter.output(sink_->size() + text.size());
  sink_->append(text, TextOrigin::kTemplate);
}

void Executor::print(const Value& value) {
  if (value.is_string()) {
    state_.meter.output(sink_->size() + value.bytes().size());
    sink_->append(value.as_string());
    return;
  }
  const MarkedText text = str(state_, value);
  state_.meter.output(sink_->size() + text.size());
  sink_->append(text);
}

MarkedText Executor::render(const Body& body, const FramePtr& frame) {
  return capture([&] { execute_body(body, frame); });
}

// Returns the index of the first body whose test is true, or stmt.bodies.size().
size_t Executor::choose_branch(const Stmt& stmt, const FramePtr& frame) {
  for (size_t i = 0; i < stmt.bodies.size(); ++i) {
    if (stmt.exprs[i] == nullptr || truthy(state_, evaluator_.evaluate(*stmt.exprs[i], frame))) return i;
  }
  return stmt.bodies.size();
}

void Executor::execute_outermost(const Body& body, size_t level, const Checkpoint* resume) {
  for (size_t i = resume != nullptr ? (*resume->path)[level].index : 0; i < body.size(); ++i) {
    const Stmt& stmt = *body[i];
    path_.resize(level);
    path_.push_back({i, 0});
    if (stmt.kind == StmtKind::kIf) {
      state_.meter.step();
      state_.line = stmt.line;
      const size_t branch = resume != nullptr ? (*resume->path)[level].branch : choose_branch(stmt, state_.root);
      path_[level].branch = branch;
      if (branch < stmt.bodies.size()) execute_outermost(stmt.bodies[branch], level + 1, resume);
    } else if (stmt.kind == StmtKind::kFor) {
      state_.line = stmt.line;
      execute_for(stmt, state_.root, resume, true);
    } else {
      execute(stmt, state_.root);
    }
    resume = nullptr;
  }
}

Executor::Flow Executor::execute_body(const Body& body, const FramePtr& frame) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = execute(*stmt, frame);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Executor::Flow Executor::execute_if(const Stmt& stmt, const FramePtr& frame) {
  const size_t branch = choose_branch(stmt, frame);
  return branch < stmt.bodies.size() ? execute_body(stmt.bodies[branch], frame) : Flow::kNext;
}

Executor::Flow Executor::execute(const Stmt& stmt, const FramePtr& frame) {
  const auto level = state_.meter.enter_node();
  state_.meter.step();
  state_.line = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kText: print(stmt.text); break;
    case StmtKind::kOutput:
      for (const ExprPtr& expr : stmt.exprs) print(evaluator_.evaluate(*expr, frame));
      break;
    case StmtKind::kSet: evaluator_.assign(*stmt.targets[0], evaluator_.evaluate(*stmt.exprs[0], frame), frame); break;
    case StmtKind::kSetBlock: execute_set_block(stmt, frame); break;
    case StmtKind::kIf: return execute_if(stmt, frame);
    case StmtKind::kFor: execute_for(stmt, frame, nullptr, false); break;
    case StmtKind::kMacro:
      frame->set(stmt.macro->symbol, Value::macro(stmt.macro.get(), closure_of(frame)));
      if (frame != state_.root) state_.captured.push_back(frame);
      break;
    case StmtKind::kCallBlock: execute_call_block(stmt, frame); break;
    case StmtKind::kFilterBlock: {
      MarkedText text = render(stmt.bodies[0], inner_scope(frame));
      const Value filtered = through_filters(stmt.filters, Value::string(std::move(text)), frame);
      if (!filtered.is_string()) {
        fail("a filter block needs a str, its filters give " + std::string(type_name(filtered)));
      }
      print(filtered);
      break;
    }
    case StmtKind::kWith: execute_with(stmt, frame); break;
    case StmtKind::kScope: execute_body(stmt.bodies[0], inner_scope(frame)); break;
    case StmtKind::kBreak: return Flow::kBreak;
    case StmtKind::kContinue: return Flow::kContinue;
    case StmtKind::kUnsupported:
      fail("{% " + stmt.text + " %} is not supported: templates cannot load other templates");
  }
  return Flow::kNext;
}

// Returns the frame that a macro defined in `frame` keeps. nullptr: the outermost frame, which the macro looks up when
// it is called, so that checkpoints can keep the macro.
std::shared_ptr<Frame> Executor::closure_of(const FramePtr& frame) { return frame == state_.root ? nullptr : frame; }

Value Executor::through_filters(const std::vector<ExprPtr>& filters, Value value, const FramePtr& frame) {
  for (const ExprPtr& filter : filters) value = evaluator_.evaluate_filter(*filter, value, frame);
  return value;
}

void Executor::execute_set_block(const Stmt& stmt, const FramePtr& frame) {
  MarkedText text = render(stmt.bodies[0], inner_scope(frame));
  Value value = through_filters(stmt.filters, Value::string(std::move(text)), frame);
  evaluator_.assign(*stmt.targets[0], std::move(value), frame);
}

void Executor::execute_call_block(const Stmt& stmt, const FramePtr& frame) {
  const Expr& expr = *stmt.exprs[0];
  const Value callee = evaluator_.evaluate(*expr.children[0], frame);
  Arguments arguments = evaluator_.evaluate_arguments(*expr.args, frame);
  arguments.named.emplace_back("caller", Value::macro(stmt.macro.get(), closure_of(frame)));
  if (frame != state_.root) state_.captured.push_back(frame);
  print(evaluator_.call(callee, arguments));
}

void Executor::execute_with(const Stmt& stmt, const FramePtr& frame) {
  const FramePtr scope = inner_scope(frame);
  for (size_t i = 0; i < stmt.targets.size(); ++i)
    evaluator_.assign(*stmt.targets[i], evaluator_.evaluate(*stmt.exprs[i], frame), scope);
  execute_body(stmt.bodies[0], scope);
}

void Executor::execute_for(const Stmt& stmt, const FramePtr& frame, const Checkpoint* resume, bool outermost) {
  std::shared_ptr<LoopObject> loop;
  if (resume != nullptr) {
    loop = start_loop(state_, stmt, frame, Value::messages(resume->position));
    loop->started = resume->iterations > 0;
    loop->index0 = loop->started ? resume->iterations - 1 : 0;
    loop->completed = resume->completed;
    if (resume->last_message >= 0) {
      loop->current = *state_.message(static_cast<size_t>(resume->last_message));
    }
  } else {
    loop = start_loop(state_, stmt, frame, evaluator_.evaluate(*stmt.exprs[0], frame));
  }
  if (!outermost || !input_.take_checkpoints || !loop->over_messages()) return run_loop(stmt, frame, loop, nullptr);
  CheckpointRecorder recorder(state_, path_, input_.generation_prompt, checkpoints_);
  if (resume == nullptr) recorder.record(*loop, output_base_ + output_.size());
  run_loop(stmt, frame, loop, &recorder);
}

void Executor::run_loop(const Stmt& stmt, const FramePtr& frame, const std::shared_ptr<LoopObject>& loop,
                        CheckpointRecorder* recorder) {
  FramePtr scope = inner_scope(frame);
  while (advance(evaluator_, *loop)) {
    state_.meter.step();
    if (loop->over_messages()) ++state_.message_iterations;
    if (scope.use_count() > 1) scope = inner_scope(frame);  // a macro still refers to the scope
    scope->variables.clear();
    evaluator_.assign(*stmt.targets[0], loop->current, scope);
    scope->set(Program::kLoopSymbol, Value::loop(loop));
    const Flow flow = execute_body(stmt.bodies[0], scope);
    if (flow == Flow::kBreak) break;
    loop->completed |= flow == Flow::kNext;
    if (recorder != nullptr) recorder->record(*loop, output_base_ + output_.size());
  }
  if (!loop->completed) execute_body(stmt.bodies[1], inner_scope(frame));
}

Value Executor::call_loop(LoopObject& loop, const Arguments& arguments) {
  const auto level = state_.meter.enter_call();
  if (!loop.stmt->recursive) fail("the loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) fail("a recursive loop takes one argument");
  const FramePtr frame = loop.frame.lock();
  if (frame == nullptr) fail("the loop has ended");
  const auto nested = start_loop(state_, *loop.stmt, frame, resolve_messages(state_, arguments.positional[0]));
  nested->depth0 = loop.depth0 + 1;
  return Value::string(capture([&] { run_loop(*loop.stmt, frame, nested, nullptr); }));
}

void Executor::restore(const Checkpoint& checkpoint) {
  for (const auto& [symbol, value] : *checkpoint.variables) {
    state_.root->variables.emplace_back(symbol, revive(*input_.messages, value));
  }
  for (const auto& attributes : *checkpoint.namespaces) {
    Attributes revived;
    for (const auto& [name, value] : *attributes) revived.emplace_back(name, revive(*input_.messages, value));
    state_.namespaces.push_back(std::make_shared<const Attributes>(std::move(revived)));
  }
  state_.reads = checkpoint.reads;
  output_base_ = checkpoint.output_bytes;
}

Result<RunOutput> run(const Program& program, const RunInput& input) {
  try {
    return Executor(program, input).run();
  } catch (const Failure& failure) {
    return Status(failure.code, failure.message);
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::kOutOfMemory, "no memory left to render the template");
  }
}

}  // namespace ibid::jinja
