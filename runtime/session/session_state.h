// SessionState: the implementation of ChatSession (ibid/chat_session.h): the current branch, its alternatives, and work
// in idle time. For files of the library; ChatSession::state() returns it. Messages and variables are Json here.
//
// A session runs one call at a time: exclusively() fails with kBusy while another call runs. Everything else is for one
// thread at a time. A failed call leaves the session unchanged.
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
#include "ibid/chat_session.h"
#include "ibid/waker.h"
#include "runtime/engine/engine_state.h"
#include "runtime/session/running_turn.h"
#include "runtime/session/session_branch.h"
#include "runtime/session/session_file.h"
#include "sampling/sampler.h"

namespace ibid {

struct PromptSize;

// Whether the start of a call ends the prefill in idle time.
enum class IdleWork { kEnds, kGoesOn };

// Marks a session as busy during a call. Any thread may try; status() is kBusy if another call runs, and kUnsupported
// in a child of fork().
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
  // Settings for files of the library, besides SessionOptions. `plain`: no template, the model continues a text
  // (runtime/prompt/plain_prompt.h).
  struct Setup {
    SessionOptions options = {};  // options.variables is ignored: see `variables`
    Json variables = Json::object();
    bool plain = false;
  };
  // Creates a session. Errors: those of ChatSession::create().
  static Result<ChatSession> create(std::shared_ptr<Engine> engine, Setup setup);

  SessionState(std::shared_ptr<Engine> engine, Setup setup);
  SessionState(const SessionState& other);  // makes a fork
  SessionState& operator=(const SessionState&) = delete;
  ~SessionState();

  // Runs body(), which returns a Status or a Result, as the only call of the session. Errors: kBusy; kUnsupported in a
  // child of fork(); kOutOfMemory for std::bad_alloc; those of body().
  template <typename Body>
  auto exclusively(Body&& body, IdleWork idle = IdleWork::kEnds) -> decltype(body()) {
    return guarded([&]() -> decltype(body()) {
      const SessionGuard guard(*this, idle);
      TRY(guard.status());
      return body();
    });
  }

  // --- the calls of ChatSession, with Json

  // kInvalidArgument if `message` is not an object with a role and valid UTF-8 (templates/message.h).
  Status append(Json message);
  // Replaces all messages. `messages`: a JSON array of objects, each with a role.
  Status set_history(Json messages);
  // Keeps the first n_kept messages and appends `added`, for a caller that knows which messages are the same. Drops the
  // transcript of the other messages. Errors: as set_history(); kInvalidArgument if there are fewer messages.
  Status replace_from(size_t n_kept, Json added);
  // Sets the template's variables from the next plan on. That plan keeps all text that renders the same with the new
  // variables. Equal variables cost nothing. Errors: kBusy; kInvalidArgument: not an object, or not UTF-8.
  Status set_variables(Json variables);
  // prompt_size() returns the length of the prompt of answer(); prompt_ids() returns the tokens of any turn's prompt.
  // Neither runs the model; the next turn reuses prompt_size()'s plan. Errors: those of the turn before its first
  // event.
  Result<PromptSize> prompt_size(size_t max_tokens);
  Result<Tokens> prompt_ids(const TurnStart& start);

  // The committed messages: [{"role": ..., "content": ...}, ...].
  const Json& messages() const { return branch.dialogue.messages().json(); }
  const Transcript& transcript() const { return branch.dialogue.transcript(); }
  // Returns the keys and values of the conversation's first tokens that are in memory now. Between turns they may be
  // evicted, but not while the caller has the entry. May throw std::bad_alloc.
  KvCacheEntry kv() const;
  // Approximate memory of text, tokens and messages, without keys and values. O(spans of the text).
  size_t n_bytes() const { return sizeof(SessionState) + branch.dialogue.n_bytes(); }

  // --- parts of the calls above, for a caller that holds the session

  // Returns an independent copy of the conversation. May throw std::bad_alloc.
  std::unique_ptr<SessionState> fork();
  // Starts over with only a system message (empty: none). std::bad_alloc: nothing has changed.
  void begin(std::string system);
  // Converts messages that will follow the first n_kept to what the engine's template expects
  // (templates/reply/protocol_messages.h). Every message that a session receives is converted here.
  std::vector<Json> for_template(size_t n_kept, std::vector<Json> added) const;
  // Changes the messages, converted by for_template(), without a turn. std::bad_alloc: nothing has changed.
  void change(PendingEdit edit);

  RunningTurn::Setting setting() const { return {engine->state(), options.when_full, &variables}; }
  // Call after a turn was committed: drops the alternatives and starts the prefill in idle time.
  void begin_after_turn() noexcept;

  // session_answers.cc: decodes n answers to the proposed messages, each in its own branch with seed + 0, 1, ...; the
  // session continues with the first.
  Result<std::vector<Turn>> run_turns(PendingEdit edit, size_t n, const TurnOptions& options,
                                      const ChatSession::AnswersCallback& on_event);
  Status choose(size_t answer);

  // Prefills the next prompt: all of it if a question awaits an answer, else what the template will render before the
  // text of the next user message. Does not change the messages. Errors: kCancelled, kOutOfMemory and others of
  // prefill(); tokens prefilled until then stay in the store.
  Result<Usage> prefill_ahead(Priority priority, std::stop_token stop);

  // Starts prefill_ahead() and returns; the waker is rung at the end. Returns null if there is nothing to prefill.
  // Errors: as prefill_ahead(); may throw std::bad_alloc.
  Result<std::unique_ptr<PrefillAhead>> begin_prefill_ahead(Priority priority, std::stop_token stop,
                                                            std::shared_ptr<Waker> waker);

  // Starts to prefill in idle time if the template will rewrite earlier text when the conversation continues (for
  // example, drop reasoning), and there is memory for the prefill.
  void start_idle_work() noexcept;
  // Cancels the prefill in idle time, which ends within one layer of its pass.
  void stop_idle_work() noexcept;

  const std::shared_ptr<Engine> engine;
  SessionOptions options;  // .system and .variables are initial values only: see `branch` and `variables`
  Json variables;          // variables of the template
  bool plain = false;
  SessionBranch branch;
  LoadWarnings load_warnings;               // warnings of load()
  std::vector<SessionBranch> alternatives;  // the other answers to the last question; `branch` has the chosen answer
  size_t chosen = 0;
  std::atomic<bool> busy{false};

 private:
  SessionBranch new_branch(std::string system) const;
  Result<std::vector<Turn>> run_side_by_side(std::span<SessionBranch> branches, uint64_t seed,
                                             const TurnOptions& options, const ChatSession::AnswersCallback& on_event);
  // May throw std::bad_alloc.
  bool rewrites_history();

  std::stop_source idle_stop_{std::nostopstate};
  std::unique_ptr<PrefillAhead> idle_;  // last member, so that the members that the prefill uses are destroyed later
};

// Saves and loads a session (session_resume.cc). Errors of files as in ChatSession::save() and load().
Status save_session(const SessionState& session, const std::string& path, bool with_kv, SaveReport& report);
Result<std::unique_ptr<SessionState>> load_session(std::shared_ptr<Engine> engine, const std::string& path,
                                                   const LoadOptions& load_options);
// Converts a session to and from what save_session() writes, without keys and values; the first turn of a resumed
// session searches for these. REQUIRES: the session has a template. to_saved() may throw std::bad_alloc.
SavedSession to_saved(const SessionState& session);
Result<ChatSession> resume_session(std::shared_ptr<Engine> engine, const SavedSession& saved,
                                   const LoadOptions& load_options = {});

// One call of a session that runs a turn. The session is busy for the life of this object. For one thread at a time;
// its work is submitted to the compute thread, which rings the waker.
class TurnCall {
 public:
  // `options` must outlive the call. `waker` is rung when there are new events.
  TurnCall(SessionState& session, const TurnOptions& options, std::shared_ptr<Waker> waker);
  // Cancels and rolls back a turn that is not finished.
  ~TurnCall() = default;
  TurnCall(const TurnCall&) = delete;
  TurnCall& operator=(const TurnCall&) = delete;

  // Begins the turn. Errors: those of ChatSession::run() before its first event; may throw std::bad_alloc. On error
  // nothing has changed.
  Status begin(const TurnStart& start, Delivery delivery);

  // After begin() only.
  RunningTurn& turn() { return *turn_; }
  const RunningTurn& turn() const { return *turn_; }
  Status check_process() const { return session_.engine->state().check_process(); }
  void wait() const { waker_->wait(); }
  // Finishes the turn (RunningTurn::finish()), and passes the last event, kFinish, to on_event. Errors: those of
  // RunningTurn::finish(); kUnsupported in a child of fork(), which has no thread that computes.
  Result<Turn> finish(const TurnCallback& on_event = {});

 private:
  SessionState& session_;
  const std::shared_ptr<Waker> waker_;
  const SessionGuard guard_;
  const TurnOptions& options_;
  std::optional<RunningTurn> turn_;
};

}  // namespace ibid
