// Parallel answers to one question: the question is prefilled once, then each answer is a branch, and the branches
// share the passes of the model.
#include <optional>
#include <utility>

#include "base/result.h"
#include "runtime/prompt/turn_meter.h"
#include "runtime/session/session_state.h"
#include "runtime/session/turn_events.h"

namespace ibid {

Result<std::vector<Turn>> SessionState::run_turns(PendingEdit edit, size_t n, const TurnOptions& turn_options,
                                                  const ChatSession::AnswersCallback& on_event) {
  TRY_ASSIGN(const Sampler sampler, Sampler::create(turn_options.sampler));
  DialogueChange asked = branch.dialogue.apply(std::move(edit));
  Usage read;
  if (Result<Usage> ahead_of_all = prefill_ahead(turn_options.priority, turn_options.stop); ahead_of_all.ok()) {
    read = *ahead_of_all;
  } else if (ahead_of_all.status().code() != ErrorCode::kContextFull || options.when_full == WhenFull::kError) {
    return ahead_of_all.status();
  }  // else the context is full: the turn of each answer will drop the same messages
  std::vector<SessionBranch> answers;
  answers.reserve(n);
  for (size_t i = 0; i < n; ++i) answers.push_back(branch);
  TRY_ASSIGN(std::vector<Turn> turns, run_side_by_side(answers, sampler.seed(), turn_options, on_event));
  // Nothing below fails. The first turn reports the prefill of the question, which was done once for all answers.
  const Usage alone = turns[0].usage;
  add_prefill_usage(turns[0].usage, read);
  answers[0].dialogue.replace_usage(alone, turns[0].usage);

  asked.commit();
  branch = std::move(answers[0]);
  alternatives = std::move(answers);
  chosen = 0;
  if (options.repair_when_idle) start_idle_work();
  return turns;
}

// Returns all turns, or the first error.
Result<std::vector<Turn>> SessionState::run_side_by_side(std::span<SessionBranch> branches, uint64_t seed,
                                                         const TurnOptions& turn_options,
                                                         const ChatSession::AnswersCallback& on_event) {
  struct Running {
    TurnOptions options;
    std::optional<RunningTurn> turn;
    std::optional<Result<Turn>> result;
  };
  const auto waker = std::make_shared<Waker>();
  std::vector<Running> running(branches.size());
  std::vector<RunningTurn*> begun;
  for (size_t i = 0; i < running.size(); ++i) {
    Running& one = running[i];
    one.options = turn_options;
    one.options.sampler.seed = seed + i;
    one.turn.emplace(branches[i], setting(), one.options, waker);
    const size_t n_messages = branches[i].dialogue.messages().size();
    TRY(one.turn->begin({.n_kept = n_messages}, on_event ? Delivery::kUntilStop : Delivery::kNone));
    begun.push_back(&*one.turn);
  }
  const auto pass_on = [&](size_t i, const TurnEvent& event) {
    if (on_event) on_event(i, event);
  };
  const auto finish = [&](size_t i) {
    std::optional<Result<Turn>>& result = running[i].result;
    result = running[i].turn->finish();
    if (result->ok()) pass_on(i, {.kind = TurnEvent::Kind::kFinish, .turn = &**result});
  };
  const auto wait = [&] { waker->wait(); };
  TRY(take_events(begun, engine->state(), wait, pass_on, finish));
  std::vector<Turn> turns;
  turns.reserve(running.size());
  for (Running& one : running) {
    TRY(one.result->status());
    turns.push_back(**std::move(one.result));
  }
  return turns;
}

Status SessionState::choose(size_t answer) {
  if (answer >= alternatives.size()) {
    return {ErrorCode::kInvalidArgument, "answer " + std::to_string(answer) + ": only " +
                                             std::to_string(alternatives.size()) +
                                             " alternatives exist, numbered from 0"};
  }
  if (answer != chosen) {
    alternatives[chosen] = std::exchange(branch, std::move(alternatives[answer]));
    chosen = answer;
  }
  return {};
}

}  // namespace ibid
