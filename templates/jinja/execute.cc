// Statements of interpreter.h, and the border of the engine.
#include <new>

#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/interpreter.h"
#include "templates/jinja/operators.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {

Interpreter::Interpreter(const Program& program, const RunInput& input)
    : program_(program),
      input_(input),
      state_(input.budget, input.messages, input.variables),
      context_(program.n_names()) {}

RunOutput Interpreter::run() {
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

FramePtr Interpreter::inner(const FramePtr& frame) {
  auto scope = std::make_shared<Frame>();
  scope->parent = frame;
  return scope;
}

void Interpreter::print(std::string_view text) {
  state_.meter.output(sink_->size() + text.size());
  sink_->append(text, TextOrigin::kTemplate);
}

void Interpreter::print(const Value& value) {
  if (value.is_string()) {
    state_.meter.output(sink_->size() + value.bytes().size());
    sink_->append(value.as_string());
    return;
  }
  const MarkedText text = str(state_, value);
  state_.meter.output(sink_->size() + text.size());
  sink_->append(text);
}

// The index of the first body whose test holds; stmt.bodies.size() when none does.
size_t Interpreter::choose_branch(const Stmt& stmt, const FramePtr& frame) {
  for (size_t i = 0; i < stmt.bodies.size(); ++i) {
    if (stmt.exprs[i] == nullptr || truthy(state_, evaluate(*stmt.exprs[i], frame))) return i;
  }
  return stmt.bodies.size();
}

void Interpreter::execute_outermost(const Body& body, size_t level, const Checkpoint* resume) {
  for (size_t i = resume != nullptr ? (*resume->path)[level].index : 0; i < body.size(); ++i) {
    const Stmt& stmt = *body[i];
    path_.resize(level);
    path_.push_back({i, 0});
    if (stmt.kind == StmtKind::kIf) {
      state_.meter.step();
      state_.line = stmt.line;
      const size_t branch =
          resume != nullptr ? (*resume->path)[level].branch : choose_branch(stmt, state_.root);
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

Interpreter::Flow Interpreter::execute_body(const Body& body, const FramePtr& frame) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = execute(*stmt, frame);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const Stmt& stmt, const FramePtr& frame) {
  const size_t branch = choose_branch(stmt, frame);
  return branch < stmt.bodies.size() ? execute_body(stmt.bodies[branch], frame) : Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt, const FramePtr& frame) {
  const auto level = state_.meter.enter_node();
  state_.meter.step();
  state_.line = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kText: print(stmt.text); break;
    case StmtKind::kOutput:
      for (const ExprPtr& expr : stmt.exprs) print(evaluate(*expr, frame));
      break;
    case StmtKind::kSet: assign(*stmt.targets[0], evaluate(*stmt.exprs[0], frame), frame); break;
    case StmtKind::kSetBlock: execute_set_block(stmt, frame); break;
    case StmtKind::kIf: return execute_if(stmt, frame);
    case StmtKind::kFor: execute_for(stmt, frame, nullptr, false); break;
    case StmtKind::kMacro:
      frame->set(stmt.macro->symbol, Value::macro(stmt.macro.get(), closure_of(frame)));
      if (frame != state_.root) state_.captured.push_back(frame);
      break;
    case StmtKind::kCallBlock: execute_call_block(stmt, frame); break;
    case StmtKind::kFilterBlock: {
      MarkedText text = capture([&] { execute_body(stmt.bodies[0], inner(frame)); });
      print(through_filters(stmt.filters, Value::string(std::move(text)), frame));
      break;
    }
    case StmtKind::kWith: execute_with(stmt, frame); break;
    case StmtKind::kScope: execute_body(stmt.bodies[0], inner(frame)); break;
    case StmtKind::kBreak: return Flow::kBreak;
    case StmtKind::kContinue: return Flow::kContinue;
    case StmtKind::kUnsupported: fail("{% " + stmt.text + " %} is not supported: a template stands alone");
  }
  return Flow::kNext;
}

// What a macro defined in `frame` keeps; the outermost frame is not kept but found again, so that macros
// survive in checkpoints.
std::shared_ptr<Frame> Interpreter::closure_of(const FramePtr& frame) {
  return frame == state_.root ? nullptr : frame;
}

Value Interpreter::through_filters(const std::vector<ExprPtr>& filters, Value value, const FramePtr& frame) {
  for (const ExprPtr& filter : filters) value = evaluate_filter(*filter, value, frame);
  return value;
}

void Interpreter::execute_set_block(const Stmt& stmt, const FramePtr& frame) {
  MarkedText text = capture([&] { execute_body(stmt.bodies[0], inner(frame)); });
  assign(*stmt.targets[0], through_filters(stmt.filters, Value::string(std::move(text)), frame), frame);
}

void Interpreter::execute_call_block(const Stmt& stmt, const FramePtr& frame) {
  const Expr& expr = *stmt.exprs[0];
  const Value callee = evaluate(*expr.children[0], frame);
  Arguments arguments = evaluate_arguments(*expr.args, frame);
  arguments.named.emplace_back("caller", Value::macro(stmt.macro.get(), closure_of(frame)));
  if (frame != state_.root) state_.captured.push_back(frame);
  print(call(callee, arguments));
}

void Interpreter::execute_with(const Stmt& stmt, const FramePtr& frame) {
  const FramePtr scope = inner(frame);
  for (size_t i = 0; i < stmt.targets.size(); ++i)
    assign(*stmt.targets[i], evaluate(*stmt.exprs[i], frame), scope);
  execute_body(stmt.bodies[0], scope);
}

void Interpreter::assign(const Expr& target, Value value, const FramePtr& frame) {
  if (target.kind == ExprKind::kName) return frame->set(target.symbol, std::move(value));
  if (target.kind == ExprKind::kNamespaceField) return assign_field(target, std::move(value), frame);
  if (!is_iterable(value)) fail("cannot unpack non-iterable " + std::string(type_name(value)) + " object");
  const Items items = iterate(state_, value);
  const size_t wanted = target.children.size();
  if (items.size() > wanted) fail("too many values to unpack (expected " + std::to_string(wanted) + ")");
  if (items.size() < wanted) {
    fail("not enough values to unpack (expected " + std::to_string(wanted) + ", got " +
         std::to_string(items.size()) + ")");
  }
  for (size_t i = 0; i < wanted; ++i) assign(*target.children[i], items[i], frame);
}

void Interpreter::assign_field(const Expr& target, Value value, const FramePtr& frame) {
  const Value object = evaluate_name(target.symbol, frame);
  if (!object.is(Kind::kNamespace)) fail("cannot assign attribute on non-namespace object");
  if (holds_reference(value)) state_.namespace_escaped = true;
  auto& slot = state_.namespaces[object.index()];
  auto attributes = std::make_shared<Attributes>(*slot);
  state_.meter.create(attributes->size() * sizeof(Value));
  size_t i = 0;
  while (i < attributes->size() && (*attributes)[i].first != target.text) ++i;
  if (i == attributes->size()) attributes->emplace_back(target.text, Value());
  (*attributes)[i].second = std::move(value);
  slot = std::move(attributes);
}

Value Interpreter::make_namespace(Attributes attributes) {
  state_.meter.create(sizeof(Attributes) + attributes.size() * sizeof(Value));
  state_.namespaces.push_back(std::make_shared<const Attributes>(std::move(attributes)));
  return Value::name_space(state_.namespaces.size() - 1);
}

void Interpreter::restore(const Checkpoint& checkpoint) {
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
    return Interpreter(program, input).run();
  } catch (const Failure& failure) {
    return Status(failure.code, failure.message);
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::kOutOfMemory, "no memory left to render the template");
  }
}

}  // namespace ibid::jinja
