// The iteration behind {% for %} and the variable `loop`: lazy, with Jinja's one-step look-ahead. The filter
// of a loop ({% for x in xs if test %}) is an expression, so whoever fetches an element needs an Evaluator.
#pragma once

#include <memory>
#include <string_view>

#include "templates/jinja/loop.h"
#include "templates/jinja/state.h"

namespace ibid::jinja {

// A loop over `sequence`, in front of its first element.
std::shared_ptr<LoopObject> start_loop(RenderState& state, const Stmt& stmt, const FramePtr& frame,
                                       const Value& sequence);
// Goes to the next element; false: there is none.
bool advance(Evaluator& evaluator, LoopObject& loop);
// loop.index, loop.last ...; undefined where `loop` has no such thing.
Value loop_attribute(Evaluator& evaluator, LoopObject& loop, std::string_view name);

}  // namespace ibid::jinja
