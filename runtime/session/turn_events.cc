#include "runtime/session/turn_events.h"

#include <optional>
#include <vector>

namespace ibid {

Status take_events(std::span<RunningTurn* const> turns, const EngineState& engine, const std::function<void()>& wait,
                   const std::function<void(size_t i, const TurnEvent& event)>& on_event,
                   const std::function<void(size_t i)>& on_over) {
  for (size_t i = 0; i < turns.size(); ++i) {
    const Turn& turn = turns[i]->beginning();
    if (turn.left_out.any()) on_event(i, {.kind = TurnEvent::Kind::kLeftOut, .turn = &turn});
  }
  bool has_text = false;
  std::vector<bool> has_ended(turns.size());
  for (size_t n_over = 0; n_over < turns.size();) {
    TRY(engine.check_process());
    bool is_idle = true;
    for (size_t i = 0; i < turns.size(); ++i) {
      if (has_ended[i]) continue;
      if (const std::optional<TurnEvent> event = turns[i]->take_event(has_text)) {
        has_text |= event->kind == TurnEvent::Kind::kText;
        on_event(i, *event);
        is_idle = false;
      } else if (turns[i]->is_over(has_text)) {
        has_ended[i] = true;
        ++n_over;
        on_over(i);
      }
    }
    if (is_idle && n_over < turns.size()) wait();
  }
  return {};
}

}  // namespace ibid
