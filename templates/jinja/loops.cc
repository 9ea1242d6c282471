// Loops of interpreter.h: lazy iteration with Jinja's one-step look-ahead, and checkpoints between
// iterations.
#include <algorithm>

#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/interpreter.h"
#include "templates/jinja/operators.h"

namespace ibid::jinja {
namespace {

Value cycle(Interpreter&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("no items for cycling given");
  return arguments.positional[self.loop_object().index0 % arguments.positional.size()];
}

Value changed(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  LoopObject& loop = self.loop_object();
  bool same = loop.has_changed && loop.changed.size() == arguments.positional.size();
  for (size_t i = 0; same && i < loop.changed.size(); ++i) {
    same = equals(interpreter.state(), loop.changed[i], arguments.positional[i]);
  }
  loop.has_changed = true;
  loop.changed = arguments.positional;
  return Value::boolean(!same);
}

}  // namespace

std::shared_ptr<LoopObject> Interpreter::start_loop(const Stmt& stmt, const FramePtr& frame,
                                                    const Value& sequence) {
  auto loop = std::make_shared<LoopObject>();
  loop->stmt = &stmt;
  loop->frame = frame;
  if (sequence.is(Kind::kMessages)) {
    loop->sequence = sequence;
    loop->position = sequence.index();
  } else if (is_indexable(sequence)) {
    loop->sequence = sequence;
    loop->size = indexable_size(sequence);
  } else {
    Items items = iterate(state_, sequence);
    loop->size = items.size();
    loop->sequence = Value::list(std::move(items));
  }
  return loop;
}

// The next element that passes the loop's filter.
std::optional<Value> Interpreter::fetch(LoopObject& loop) {
  for (;;) {
    std::optional<Value> value;
    if (loop.over_messages()) {
      value = state_.message(loop.position);
    } else if (loop.position < loop.size) {
      value = element(loop.sequence, loop.position);
    }
    if (!value) return std::nullopt;
    ++loop.position;
    state_.meter.step();
    const Expr* const filter = loop.stmt->exprs[1].get();
    if (filter == nullptr) return value;
    const FramePtr scope = inner(loop.frame.lock());
    assign(*loop.stmt->targets[0], *value, scope);
    if (truthy(state_, evaluate(*filter, scope))) return value;
  }
}

bool Interpreter::advance(LoopObject& loop) {
  std::optional<Value> next;
  if (!loop.ahead.empty()) {
    next = std::move(loop.ahead.front());
    loop.ahead.pop_front();
  } else {
    next = fetch(loop);
  }
  if (!next) return false;
  if (loop.started) ++loop.index0;
  loop.previous = loop.started ? std::move(loop.current) : Value::undefined("there is no previous item");
  loop.started = true;
  loop.current = std::move(*next);
  return true;
}

bool Interpreter::is_last(LoopObject& loop) {
  if (!loop.ahead.empty()) return false;
  if (loop.stmt->exprs[1] == nullptr) {
    return loop.over_messages() ? !state_.has_message(loop.position) : loop.position >= loop.size;
  }
  if (auto next = fetch(loop)) loop.ahead.push_back(std::move(*next));
  return loop.ahead.empty();
}

size_t Interpreter::loop_length(LoopObject& loop) {
  const size_t so_far = loop.index0 + (loop.started ? 1 : 0) + loop.ahead.size();
  if (loop.stmt->exprs[1] == nullptr) {
    const size_t total = loop.over_messages() ? state_.message_count() : loop.size;
    return so_far + (total > loop.position ? total - loop.position : 0);
  }
  while (auto next = fetch(loop)) loop.ahead.push_back(std::move(*next));
  return loop.index0 + (loop.started ? 1 : 0) + loop.ahead.size();
}

Value Interpreter::loop_attribute(LoopObject& loop, std::string_view name) {
  const auto number = [](size_t n) { return Value::integer(static_cast<int64_t>(n)); };
  if (name == "index0") return number(loop.index0);
  if (name == "index") return number(loop.index0 + 1);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(is_last(loop));
  if (name == "length") return number(loop_length(loop));
  if (name == "revindex0") return number(loop_length(loop) - loop.index0 - 1);
  if (name == "revindex") return number(loop_length(loop) - loop.index0);
  if (name == "depth0") return number(loop.depth0);
  if (name == "depth") return number(loop.depth0 + 1);
  if (name == "previtem") return loop.previous;
  if (name == "nextitem") {
    if (loop.ahead.empty()) {
      if (auto next = fetch(loop)) loop.ahead.push_back(std::move(*next));
    }
    return loop.ahead.empty() ? Value::undefined("there is no next item") : loop.ahead.front();
  }
  const Value self = Value::loop(loop.shared_from_this());
  if (name == "cycle") return Value::method(self, cycle);
  if (name == "changed") return Value::method(self, changed);
  return Value::undefined("'jinja2.runtime.LoopContext object' has no attribute '" + std::string(name) + "'");
}

void Interpreter::execute_for(const Stmt& stmt, const FramePtr& frame, const Checkpoint* resume,
                              bool outermost) {
  std::shared_ptr<LoopObject> loop;
  if (resume != nullptr) {
    loop = start_loop(stmt, frame, Value::messages(resume->position));
    loop->started = resume->iterations > 0;
    loop->index0 = loop->started ? resume->iterations - 1 : 0;
    if (resume->last_message >= 0) {
      loop->current = *state_.message(static_cast<size_t>(resume->last_message));
    }
  } else {
    loop = start_loop(stmt, frame, evaluate(*stmt.exprs[0], frame));
  }
  if (!outermost || !input_.take_checkpoints || !loop->over_messages())
    return run_loop(stmt, frame, loop, nullptr);
  CheckpointRecorder recorder(state_, path_, input_.generation_prompt, checkpoints_);
  if (resume == nullptr) recorder.record(*loop, output_base_ + output_.size());
  run_loop(stmt, frame, loop, &recorder);
}

void Interpreter::run_loop(const Stmt& stmt, const FramePtr& frame, const std::shared_ptr<LoopObject>& loop,
                           CheckpointRecorder* recorder) {
  FramePtr scope = inner(frame);
  while (advance(*loop)) {
    state_.meter.step();
    if (loop->over_messages()) ++state_.message_iterations;
    if (scope.use_count() > 1) scope = inner(frame);  // a macro kept the last one
    scope->variables.clear();
    assign(*stmt.targets[0], loop->current, scope);
    scope->set(Program::kLoopSymbol, Value::loop(loop));
    if (execute_body(stmt.bodies[0], scope) == Flow::kBreak) break;
    if (recorder != nullptr) recorder->record(*loop, output_base_ + output_.size());
  }
  if (!loop->started) execute_body(stmt.bodies[1], inner(frame));
}

Value Interpreter::call_loop(LoopObject& loop, const Arguments& arguments) {
  const auto level = state_.meter.enter_call();
  if (!loop.stmt->recursive) fail("the loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    fail("a recursive loop takes one argument");
  const FramePtr frame = loop.frame.lock();
  if (frame == nullptr) fail("the scope of the loop is gone");
  const auto nested = start_loop(*loop.stmt, frame, resolve_messages(state_, arguments.positional[0]));
  nested->depth0 = loop.depth0 + 1;
  return Value::string(capture([&] { run_loop(*loop.stmt, frame, nested, nullptr); }));
}

}  // namespace ibid::jinja
