// The iteration behind {% for %} and the variable `loop`: lazy, with Jinja's one-step look-ahead. The filter
// of a loop ({% for x in xs if test %}) is an expression, so whoever fetches an element needs an Evaluator.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string_view>

#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

struct LoopObject : Object, std::enable_shared_from_this<LoopObject> {
  const Stmt* stmt = nullptr;
  std::weak_ptr<Frame> frame;  // around the loop
  Value sequence;              // iterated lazily: messages, JSON lists, lists, ranges
  size_t position = 0;         // of the next element; for messages, its index among all of them
  size_t size = 0;             // of sequence, unless it is the messages
  std::deque<Value> ahead;     // taken from the sequence, not yet iterated
  bool started = false;
  bool completed = false;      // an iteration came to its end, without {% continue %} or {% break %}
  size_t index0 = 0;
  Value previous, current;  // undefined where there is none
  size_t depth0 = 0;        // of recursive loops
  Items changed;            // what loop.changed() saw last
  bool has_changed = false;

  bool over_messages() const { return sequence.is(Kind::kMessages); }
};

// A loop over `sequence`, in front of its first element.
std::shared_ptr<LoopObject> start_loop(RenderState& state, const Stmt& stmt, const FramePtr& frame,
                                       const Value& sequence);
// Goes to the next element; false: there is none.
bool advance(Evaluator& evaluator, LoopObject& loop);
// loop.index, loop.last ...; undefined where `loop` has no such thing.
Value loop_attribute(Evaluator& evaluator, LoopObject& loop, std::string_view name);

}  // namespace ibid::jinja
