// ChatSession: one conversation with a model, as the tree itself uses it. include/ibid/chat_session.h is its face for
// programs of others and says what each call does, what it costs and how it fails; api/ passes every call on. Here
// stands what differs: messages and variables are Json, and the parts of a conversation can be looked at.
//
// A session runs one turn at a time, and a call while a turn runs is kBusy. Everything else about a session is for one
// thread at a time. A call that fails leaves it as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/session_options.h"
#include "ibid/token.h"
#include "ibid/turn.h"
#include "runtime/engine/engine.h"
#include "runtime/session/session_json.h"

namespace ibid {

class Transcript;
struct PromptSize;

// As api::SessionOptions; and what only the tree itself uses.
struct SessionOptions {
  std::string system = {};
  Json variables = Json::object();
  std::string now = {};
  std::string cache_namespace = {};
  WhenFull when_full = WhenFull::kError;
  bool repair_when_idle = true;
  bool plain = false;  // no template: a text that the model goes on with (runtime/prompt/plain_prompt.h)
};

class ChatSession {
 public:
  // kInvalidArgument also for variables that are no object.
  static Result<ChatSession> create(std::shared_ptr<Engine> engine, SessionOptions options = {});

  ChatSession(ChatSession&&) noexcept;
  ChatSession& operator=(ChatSession&&) noexcept;
  ~ChatSession();

  Result<Turn> send(std::string_view message, const TurnOptions& options = {}, const TurnCallback& on_event = {});
  // kInvalidArgument: `message` is no object with a role and valid UTF-8 (runtime/session/message_checks.h).
  Status append(Json message);
  Result<Turn> answer(const TurnOptions& options = {}, const TurnCallback& on_event = {});
  Result<Usage> prefill(std::stop_token stop = {}, Priority priority = Priority::kNormal);
  Result<Turn> regenerate(const TurnOptions& options = {}, const TurnCallback& on_event = {});
  Result<Turn> edit(size_t message, std::string_view text, const TurnOptions& options = {},
                    const TurnCallback& on_event = {});

  static constexpr size_t kMaxAnswers = 16;
  using AnswersCallback = std::function<void(size_t answer, const TurnEvent&)>;
  Result<std::vector<Turn>> send_for_answers(std::string_view message, size_t n, const TurnOptions& options = {},
                                             const AnswersCallback& on_event = {});
  Status choose(size_t answer);

  // How long the prompt of answer() is. Nothing is computed, and the turn does not plan again what was planned here.
  // Errors: those of answer() before its first event.
  Result<PromptSize> prompt_size(size_t max_tokens) const;

  Status rewind_to(size_t n_messages);
  // `messages`: a JSON array of what append() takes.
  Status set_history(Json messages);
  // Keeps the first n_kept messages and puts `added` behind them; set_history() for who knows what is the same. If
  // messages go, the caller takes back what was said. Errors: as set_history(); kInvalidArgument: there are fewer.
  Status replace_from(size_t n_kept, Json added);
  // The template's variables, from the next plan on: it compares what it renders, so whatever is written the same
  // stays. The same variables cost nothing. Errors: kBusy; kInvalidArgument: no object, or not UTF-8.
  Status set_variables(Json variables);
  Result<ChatSession> fork() const;

  Status save(const std::string& path, const SaveOptions& options, SaveReport* report = nullptr) const;
  Status save(const std::string& path) const { return save(path, SaveOptions{}); }
  // Errors: those of read_session_file() (runtime/session/session_file.h).
  static Result<ChatSession> load(std::shared_ptr<Engine> engine, const std::string& path,
                                  const LoadOptions& options = {});
  // What save() writes, without keys and values, for who keeps it otherwise; and back. to_saved() may throw
  // std::bad_alloc. REQUIRES: it has a template. A resumed one's keys and values are looked for by its first turn.
  SavedSession to_saved() const;
  static Result<ChatSession> resume(std::shared_ptr<Engine> engine, const SavedSession& saved,
                                    const LoadOptions& options = {});

  Status reset();
  Status set_system(std::string_view text);
  Status pin(size_t message);
  Status set_when_full(WhenFull policy);

  // [{"role": ..., "content": ...}, ...] as committed.
  const Json& messages() const;
  const Tokens& ids() const;
  const Transcript& transcript() const;
  // Returns the keys and values of the conversation's first ids, as many as are in memory now. Between turns they
  // may be evicted for others; while the caller has the entry, its pages stay in memory. May throw std::bad_alloc.
  KvCacheEntry kv() const;
  WhenFull when_full() const;
  const SessionLosses& losses() const;
  // What its text, ids and messages take of memory, about; without keys and values. O(spans of the text).
  size_t n_bytes() const;
  const Usage& usage() const;
  const Timings& timings() const;
  size_t count_tokens(std::string_view text) const;
  const std::shared_ptr<Engine>& engine() const;

 private:
  friend class PrefillStream;
  friend class TurnCall;
  struct State;
  struct EndState {
    void operator()(State* state) const;
  };
  explicit ChatSession(std::unique_ptr<State> state);

  std::shared_ptr<Engine> engine_;  // the same for life
  std::unique_ptr<State, EndState> state_;
};

}  // namespace ibid
