// The events of running turns, for a caller that waits for them. TurnStream is for callers that poll.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/result.h"
#include "runtime/engine/engine_state.h"
#include "runtime/session/running_turn.h"

namespace ibid {

// Passes the events of turns that have begun to on_event(i, event): first what their prompts left out, then one event
// of each turn in each round. Calls on_over(i) once turn i is over, and returns when all turns are over. Without events
// calls wait(), which returns when one of the turns has rung its waker. After text of one turn, a stop still lets every
// other turn emit its first text. Errors: kUnsupported in a child of fork(). May throw std::bad_alloc.
Status take_events(std::span<RunningTurn* const> turns, const EngineState& engine, const std::function<void()>& wait,
                   const std::function<void(size_t i, const TurnEvent& event)>& on_event,
                   const std::function<void(size_t i)>& on_over);

}  // namespace ibid
