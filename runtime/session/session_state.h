// The inside of a ChatSession: the branch that goes on, its alternatives, and the work in idle time. Not for users of
// the library. Not thread-safe, except for `busy`, by which the session's calls exclude each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/session/chat_session.h"
#include "runtime/session/running_turn.h"
#include "runtime/session/session_branch.h"
#include "runtime/session/session_file.h"
#include "sampling/sampler.h"

namespace ibid {

struct ChatSession::State {
  State(std::shared_ptr<Engine> engine, SessionOptions options);
  State(const State& other);  // a fork
  State& operator=(const State&) = delete;
  ~State();

  // A second conversation that goes on from here. May throw std::bad_alloc.
  std::unique_ptr<State> fork();
  // Starts over with a system message alone (empty: none). std::bad_alloc: nothing has changed.
  void begin(std::string system);
  // Messages that are to stand behind the first n_kept, as the engine's template wants them
  // (templates/reply/protocol_messages.h). Every message that a session is given goes through here.
  std::vector<Json> for_template(size_t n_kept, std::vector<Json> added) const;
  // Changes the messages, without a turn; they become what for_template() makes of them. std::bad_alloc: nothing has
  // changed.
  void change(Proposal proposal);

  // Other variables of the template. std::bad_alloc: nothing has changed.
  void set_variables(Json variables);

  RunningTurn::Setting setting() const { return {*engine, options.when_full, &options.variables}; }
  // For after a turn that was committed: nothing is left to be chosen, and work in idle time begins.
  void begin_after_turn() noexcept;

  // session_answers.cc: gives n answers to what is proposed, each from a branch of its own with seed + 0, 1, ...; the
  // session goes on with the first.
  Result<std::vector<Turn>> run_turns(Proposal proposal, size_t n, const TurnOptions& options,
                                      const AnswersCallback& on_event);
  Status choose(size_t answer);

  // Computes now what the next turn will need: the whole prompt, when a question waits for its answer, else what the
  // template will write up to the next user message's text. Changes nothing that is said.
  // Errors: kCancelled, kOutOfMemory and others as of prefill(); what was read till then stays in the store.
  Result<Usage> read_ahead(Priority priority, std::stop_token stop);

  // Begins to do that; the bell rings at the end. A null result means that there is nothing to read. Errors: as
  // read_ahead(); it may throw std::bad_alloc.
  Result<std::unique_ptr<ReadingAhead>> begin_reading_ahead(Priority priority, std::stop_token stop,
                                                            std::shared_ptr<Bell> bell);

  // Has the engine read ahead while it has nothing else to do, if the template will rewrite what it wrote so far when
  // the conversation goes on (it drops thinking, say), and there is memory for that.
  void start_idle_work() noexcept;
  // Ends it within a layer.
  void stop_idle_work() noexcept;

  // session_resume.cc: as a file, and back.
  Status save(const std::string& path, bool with_kv, SaveReport& report) const;
  static Result<std::unique_ptr<State>> load(std::shared_ptr<Engine> engine, const std::string& path,
                                             const LoadOptions& load_options);
  static Result<std::unique_ptr<State>> resume(std::shared_ptr<Engine> engine, const SavedSession& saved,
                                               const LoadOptions& load_options);
  SavedSession to_saved() const;

  const std::shared_ptr<Engine> engine;
  SessionOptions options;  // .system is the dialogue's
  SessionBranch branch;
  SessionLosses losses;                     // of load()
  std::vector<SessionBranch> alternatives;  // the answers to the last question; [chosen] is this branch's place
  size_t chosen = 0;
  std::atomic<bool> busy{false};

 private:
  SessionBranch new_branch(std::string system) const;
  Result<std::vector<Turn>> run_side_by_side(std::span<SessionBranch> branches, uint64_t seed,
                                             const TurnOptions& options, const AnswersCallback& on_event);
  // May throw std::bad_alloc.
  bool rewrites_history();
  // Makes messages and transcript those of the file. Replies whose ids this model does not have, or whose prompt the
  // template refuses, and those behind them are left to be text, and counted as lost. REQUIRES: nothing was said yet.
  Status replay(const SavedSession& saved);

  std::stop_source idle_stop_{std::nostopstate};
  std::unique_ptr<ReadingAhead> idle_;  // last: it ends before anything that it reads
};

}  // namespace ibid
