// Several answers to one question: the question is read once, then every answer is a branch, and the branches share
// the passes of the model.
#include <atomic>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/out_of_heap.h"
#include "runtime/session_state.h"

namespace ibid {
namespace {

// Runs answer(i), which must not throw, for i from 0 to n - 1, each on a thread of its own: all of them, or none.
// Throws std::bad_alloc and std::system_error when a thread cannot be had.
template <typename Answer>
void run_side_by_side(size_t n, const Answer& answer) {
  enum class Gate { kClosed, kOpen, kGivenUp };
  std::atomic<Gate> gate{Gate::kClosed};
  const auto set_gate = [&](Gate to) {
    gate.store(to);
    gate.notify_all();
  };
  std::vector<std::jthread> threads;  // behind the gate: they end first
  threads.reserve(n);
  try {
    for (size_t i = 0; i < n; ++i) {
      threads.emplace_back([&gate, &answer, i] {
        gate.wait(Gate::kClosed);
        if (gate.load() == Gate::kOpen) answer(i);
      });
    }
  } catch (...) {
    set_gate(Gate::kGivenUp);
    throw;
  }
  set_gate(Gate::kOpen);
}

}  // namespace

Result<std::vector<Turn>> ChatSession::State::run_turns(size_t n, uint64_t seed, const TurnOptions& turn_options,
                                                        const AnswersCallback& on_event) try {
  Usage read;
  if (Result<Usage> ahead_of_all = read_ahead(turn_options.priority, turn_options.stop); ahead_of_all.ok()) {
    read = *ahead_of_all;
  } else if (ahead_of_all.status().code() != ErrorCode::kContextFull || options.when_full == WhenFull::kError) {
    return ahead_of_all.status();
  }  // else every turn makes the same room for itself
  std::vector<std::unique_ptr<State>> branches;
  for (size_t i = 0; i < n; ++i) {
    branches.push_back(std::make_unique<State>(*this));
    branches.back()->options.repair_when_idle = false;  // the one that goes on is repaired, below
  }
  std::vector<std::optional<Result<Turn>>> results(n);
  std::vector<Turn> turns;
  turns.reserve(n);
  std::vector<SessionBranch> answers;
  answers.reserve(n);
  std::mutex speaking;
  run_side_by_side(n, [&](size_t i) noexcept {
    try {
      TurnOptions own = turn_options;
      own.sampler.seed = seed + i;
      TurnCallback tell;
      if (on_event) {
        tell = [&, i](const TurnEvent& event) {
          const std::lock_guard lock(speaking);
          on_event(i, event);
        };
      }
      results[i] = branches[i]->run_turn(own, tell);
    } catch (const std::bad_alloc&) {
      results[i] = Result<Turn>(out_of_heap());
    }
  });
  for (std::optional<Result<Turn>>& result : results) {
    TRY(result->status());
    turns.push_back(**std::move(result));
  }
  // Nothing below fails. The first one stands for the reading of the question, which was done once for all.
  turns[0].usage.n_cached -= read.n_prefilled;
  turns[0].usage.n_prefilled += read.n_prefilled;
  branches[0]->usage.n_cached -= read.n_prefilled;
  branches[0]->usage.n_prefilled += read.n_prefilled;

  for (std::unique_ptr<State>& branch : branches) answers.push_back(std::move(static_cast<SessionBranch&>(*branch)));
  static_cast<SessionBranch&>(*this) = std::move(answers[0]);
  alternatives = std::move(answers);
  chosen = 0;
  if (options.repair_when_idle && rewrites_history()) start_idle_work();
  return turns;
} catch (const std::bad_alloc&) {
  return out_of_heap();
} catch (const std::system_error&) {
  return {ErrorCode::kOutOfMemory, "no thread left"};
}

Status ChatSession::State::choose(size_t answer) {
  if (answer >= alternatives.size()) {
    return {ErrorCode::kInvalidArgument, "answer " + std::to_string(answer) + " of " +
                                             std::to_string(alternatives.size()) + " that may be chosen"};
  }
  SessionBranch& branch = *this;
  if (answer != chosen) {
    alternatives[chosen] = std::exchange(branch, std::move(alternatives[answer]));
    chosen = answer;
  }
  return {};
}

}  // namespace ibid
