#include "templates/jinja/loops.h"

#include <algorithm>
#include <optional>

#include "templates/jinja/builtins.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/operators.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {
namespace {

constexpr Builtin<Value> kLoopMethods[] = {
    {"cycle(*)",
     [](const Call& c) {
       const Items& items = c.arguments.positional;
       if (items.empty()) fail("no items for cycling given");
       return items[c.subject.loop_object().index0 % items.size()];
     }},
    {"changed(*)",
     [](const Call& c) {
       LoopObject& loop = c.subject.loop_object();
       const Items& now = c.arguments.positional;
       bool same = loop.has_changed && loop.changed.size() == now.size();
       for (size_t i = 0; same && i < now.size(); ++i) same = equals(c.state, loop.changed[i], now[i]);
       loop.has_changed = true;
       loop.changed = now;
       return Value::boolean(!same);
     }},
};

// The next element that passes the loop's filter.
std::optional<Value> fetch(Evaluator& evaluator, LoopObject& loop) {
  for (;;) {
    std::optional<Value> value;
    if (loop.over_messages()) {
      value = evaluator.state().message(loop.position);
    } else if (loop.position < loop.size) {
      value = element(loop.sequence, loop.position);
    }
    if (!value) return std::nullopt;
    ++loop.position;
    evaluator.state().meter.step();
    const Expr* const filter = loop.stmt->exprs[1].get();
    if (filter == nullptr) return value;
    const FramePtr scope = inner_scope(loop.frame.lock());
    evaluator.assign(*loop.stmt->targets[0], *value, scope);
    if (truthy(evaluator.state(), evaluator.evaluate(*filter, scope))) return value;
  }
}

bool is_last(Evaluator& evaluator, LoopObject& loop) {
  if (!loop.ahead.empty()) return false;
  if (loop.stmt->exprs[1] == nullptr) {
    return loop.over_messages() ? !evaluator.state().has_message(loop.position) : loop.position >= loop.size;
  }
  if (auto next = fetch(evaluator, loop)) loop.ahead.push_back(std::move(*next));
  return loop.ahead.empty();
}

size_t loop_length(Evaluator& evaluator, LoopObject& loop) {
  const size_t so_far = loop.index0 + (loop.started ? 1 : 0) + loop.ahead.size();
  if (loop.stmt->exprs[1] == nullptr) {
    const size_t total = loop.over_messages() ? evaluator.state().message_count() : loop.size;
    return so_far + (total > loop.position ? total - loop.position : 0);
  }
  while (auto next = fetch(evaluator, loop)) loop.ahead.push_back(std::move(*next));
  return loop.index0 + (loop.started ? 1 : 0) + loop.ahead.size();
}

}  // namespace

std::shared_ptr<LoopObject> start_loop(RenderState& state, const Stmt& stmt, const FramePtr& frame,
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
    Items items = iterate(state, sequence);
    loop->size = items.size();
    loop->sequence = Value::list(std::move(items));
  }
  return loop;
}

bool advance(Evaluator& evaluator, LoopObject& loop) {
  std::optional<Value> next;
  if (!loop.ahead.empty()) {
    next = std::move(loop.ahead.front());
    loop.ahead.pop_front();
  } else {
    next = fetch(evaluator, loop);
  }
  if (!next) return false;
  if (loop.started) ++loop.index0;
  loop.previous = loop.started ? std::move(loop.current) : Value::undefined("there is no previous item");
  loop.started = true;
  loop.current = std::move(*next);
  return true;
}

Value loop_attribute(Evaluator& evaluator, LoopObject& loop, std::string_view name) {
  const auto number = [](size_t n) { return Value::integer(static_cast<int64_t>(n)); };
  if (name == "index0") return number(loop.index0);
  if (name == "index") return number(loop.index0 + 1);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(is_last(evaluator, loop));
  if (name == "length") return number(loop_length(evaluator, loop));
  if (name == "revindex0") return number(loop_length(evaluator, loop) - loop.index0 - 1);
  if (name == "revindex") return number(loop_length(evaluator, loop) - loop.index0);
  if (name == "depth0") return number(loop.depth0);
  if (name == "depth") return number(loop.depth0 + 1);
  if (name == "previtem") return loop.previous;
  if (name == "nextitem") {
    if (loop.ahead.empty()) {
      if (auto next = fetch(evaluator, loop)) loop.ahead.push_back(std::move(*next));
    }
    return loop.ahead.empty() ? Value::undefined("there is no next item") : loop.ahead.front();
  }
  const Value self = Value::loop(loop.shared_from_this());
  if (const Method method = find_builtin<Value>(kLoopMethods, name)) return Value::method(self, method);
  return Value::undefined("'jinja2.runtime.LoopContext object' has no attribute '" + std::string(name) + "'");
}

}  // namespace ibid::jinja
