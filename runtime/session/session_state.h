// SessionState: what a ChatSession (ibid/chat_session.h) hides: the branch that goes on, its alternatives, and the work
// in idle time. For the files of the library; ChatSession::state() returns it. Messages and variables are Json here.
//
// A session runs one call at a time: exclusively() fails with kBusy while another call runs. Everything else is for one
// thread at a time. A call that fails leaves the session as it was.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/bell.h"
#include "ibid/chat_session.h"
#include "runtime/engine/engine_state.h"
#include "runtime/session/running_turn.h"
#include "runtime/session/session_branch.h"
#include "runtime/session/session_file.h"
#include "sampling/sampler.h"

namespace ibid {

struct PromptSize;

// Whether work in idle time ends when a call begins.
enum class IdleWork { kEnds, kGoesOn };

// Holds a session during a call. Any thread may try; status() is kBusy where another call runs, and kUnsupported in a
// child of fork().
class SessionGuard {
 public:
  explicit SessionGuard(SessionState& session, IdleWork idle = IdleWork::kEnds);
  ~SessionGuard();
  SessionGuard(const SessionGuard&) = delete;
  SessionGuard& operator=(const SessionGuard&) = delete;

  Status status() const;

 private:
  const Status process_;
  std::atomic<bool>& busy_;
  bool holds_ = false;
};

class SessionState {
 public:
  // What the files of the library can set besides SessionOptions. `plain`: no template, but a text that the model
  // continues (runtime/prompt/plain_prompt.h).
  struct Setup {
    SessionOptions options = {};  // .variables is not used
    Json variables = Json::object();
    bool plain = false;
  };
  // Errors: those of ChatSession::create().
  static Result<ChatSession> create(std::shared_ptr<Engine> engine, Setup setup);

  SessionState(std::shared_ptr<Engine> engine, Setup setup);
  SessionState(const SessionState& other);  // a fork
  SessionState& operator=(const SessionState&) = delete;
  ~SessionState();

  // Runs body(), which returns a Status or a Result, as the one call of the session. Errors: kBusy; kUnsupported in a
  // child of fork(); kOutOfMemory in place of std::bad_alloc; those of body().
  template <typename Body>
  auto exclusively(Body&& body, IdleWork idle = IdleWork::kEnds) -> decltype(body()) {
    return guarded([&]() -> decltype(body()) {
      const SessionGuard guard(*this, idle);
      TRY(guard.status());
      return body();
    });
  }

  // --- calls of a session, as ChatSession has them, with Json

  // kInvalidArgument: `message` is no object with a role and valid UTF-8 (runtime/session/message_checks.h).
  Status append(Json message);
  // `messages`: a JSON array of what append() takes.
  Status set_history(Json messages);
  // Keeps the first n_kept messages and appends `added`, for a caller that knows which messages are the same. A
  // transcript of dropped messages is dropped. Errors: as set_history(); kInvalidArgument: there are fewer.
  Status replace_from(size_t n_kept, Json added);
  // The template's variables, from the next plan on: it compares what it renders, so text that is rendered the same
  // stays. The same variables cost nothing. Errors: kBusy; kInvalidArgument: no object, or not UTF-8.
  Status set_variables(Json variables);
  // The length of the prompt of answer(). Nothing is computed, and the turn does not plan again what was planned here.
  // Errors: those of answer() before its first event.
  Result<PromptSize> prompt_size(size_t max_tokens);

  // [{"role": ..., "content": ...}, ...] as committed.
  const Json& messages() const { return branch.dialogue.messages().json(); }
  const Transcript& transcript() const { return branch.dialogue.transcript(); }
  // Returns the keys and values of the conversation's first tokens, as many as are in memory now. Between turns they
  // may be evicted for others; while the caller has the entry, its pages stay in memory. May throw std::bad_alloc.
  KvCacheEntry kv() const;
  // Memory of its text, tokens and messages, approximately; without keys and values. O(spans of the text).
  size_t n_bytes() const { return sizeof(SessionState) + branch.dialogue.n_bytes(); }

  // --- parts of these calls, for a caller that holds the session

  // The messages that `start` proposes to answer. Errors: kInvalidArgument.
  Result<Proposal> proposal_of(const TurnStart& start) const;

  // A second conversation that goes on from here. May throw std::bad_alloc.
  std::unique_ptr<SessionState> fork();
  // Starts over with a system message alone (empty: none). std::bad_alloc: nothing has changed.
  void begin(std::string system);
  // Messages that are to stand behind the first n_kept, as the engine's template wants them
  // (templates/reply/protocol_messages.h). Every message that a session is given goes through here.
  std::vector<Json> for_template(size_t n_kept, std::vector<Json> added) const;
  // Changes the messages, without a turn; they become what for_template() makes of them. std::bad_alloc: nothing has
  // changed.
  void change(Proposal proposal);

  RunningTurn::Setting setting() const { return {engine->state(), options.when_full, &variables}; }
  // For after a turn that was committed: nothing is left to be chosen, and work in idle time begins.
  void begin_after_turn() noexcept;

  // session_answers.cc: gives n answers to what is proposed, each from a branch of its own with seed + 0, 1, ...; the
  // session goes on with the first.
  Result<std::vector<Turn>> run_turns(Proposal proposal, size_t n, const TurnOptions& options,
                                      const ChatSession::AnswersCallback& on_event);
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

  const std::shared_ptr<Engine> engine;
  SessionOptions options;  // .system is the dialogue's, .variables is `variables`
  Json variables;          // of the template
  bool plain = false;
  SessionBranch branch;
  SessionLosses losses;                     // of load()
  std::vector<SessionBranch> alternatives;  // the answers to the last question; [chosen] is this branch's place
  size_t chosen = 0;
  std::atomic<bool> busy{false};

 private:
  SessionBranch new_branch(std::string system) const;
  Result<std::vector<Turn>> run_side_by_side(std::span<SessionBranch> branches, uint64_t seed,
                                             const TurnOptions& options, const ChatSession::AnswersCallback& on_event);
  // May throw std::bad_alloc.
  bool rewrites_history();

  std::stop_source idle_stop_{std::nostopstate};
  std::unique_ptr<ReadingAhead> idle_;  // last: it ends before anything that it reads
};

// A session as a file, and back (session_resume.cc). Errors of files as in ChatSession::save() and load().
Status save_session(const SessionState& session, const std::string& path, bool with_kv, SaveReport& report);
Result<std::unique_ptr<SessionState>> load_session(std::shared_ptr<Engine> engine, const std::string& path,
                                                   const LoadOptions& load_options);
// What save_session() writes, without keys and values, and back. The first turn of a resumed session looks for its keys
// and values. REQUIRES: it has a template. to_saved() may throw std::bad_alloc.
SavedSession to_saved(const SessionState& session);
Result<ChatSession> resume_session(std::shared_ptr<Engine> engine, const SavedSession& saved,
                                   const LoadOptions& load_options = {});

// One call of a session that gives a turn, from its checks to its end. The session is busy as long as this object
// lives. For one thread at a time; what it submits runs on the compute thread and rings the bell.
class TurnCall {
 public:
  // `options` must outlive it. `bell` rings when there are new events.
  TurnCall(SessionState& session, const TurnOptions& options, std::shared_ptr<Bell> bell);
  // A turn that is not finished is cancelled, and leaves nothing behind.
  ~TurnCall() = default;
  TurnCall(const TurnCall&) = delete;
  TurnCall& operator=(const TurnCall&) = delete;

  // Begins the turn. on_event gets the events before anything is computed. tells: events will be taken. Errors: those
  // of ChatSession::run() before its first event. It may also throw std::bad_alloc. In both cases nothing has changed.
  Status begin(const TurnStart& start, const TurnCallback& on_event, bool tells);

  // For after begin().
  RunningTurn& turn() { return *turn_; }
  const RunningTurn& turn() const { return *turn_; }
  Status check_process() const { return session_.engine->state().check_process(); }
  Result<Turn> finish(const TurnCallback& on_event, const ReplyParser::Listener& on_part = {});
  // Emits events to on_event until the turn is over, and finishes it.
  Result<Turn> run(const TurnCallback& on_event);

 private:
  SessionState& session_;
  const std::shared_ptr<Bell> bell_;
  const SessionGuard guard_;
  const TurnOptions& options_;
  std::optional<RunningTurn> turn_;
};

}  // namespace ibid
