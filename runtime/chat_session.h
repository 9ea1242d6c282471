// ChatSession: one conversation with a model. Each message costs its own tokens: what was read or said
// before is not read again.
//
//   auto engine = Engine::load("model.gguf");
//   auto chat = ChatSession::create(*engine, {.system = "You are brief."});
//   auto turn = chat->send("Hello!", {}, [](const TurnEvent& event) { std::cout << event.text; });
//
// One turn at a time: a call while a turn runs (from another thread, or from its own event callback) is
// kBusy and changes nothing. Everything else about a session is for one thread at a time.
//
// All or nothing: a turn that fails, or is cancelled with StopMode::kDiscard, leaves the messages, the ids
// and the keys and values as they were. What it had computed stays in the engine's store where
// that is possible, so that trying again is cheap.
//
// Not there yet: edit, append and prefill ahead of time, set_history, save and load, several answers at
// once, tools and reasoning as fields of their own, and policies for a full context (it is an error).
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
#include "base/types.h"
#include "runtime/engine.h"
#include "runtime/generate.h"
#include "runtime/prompt_delta.h"
#include "runtime/sampler.h"
#include "runtime/stats.h"

namespace ibid {

struct SessionOptions {
  std::string system = {};                // empty: no system message
  Json variables = Json::object();        // for the template: enable_thinking, documents ...
  std::string now = {};                   // the template's clock (ISO 8601), frozen; empty: when created, UTC
  std::string cache_namespace = {};       // sessions share keys and values only within one namespace
};

enum class StopMode {
  kKeepPartial,  // a cancelled answer is an answer: it stays in the history as far as it came
  kDiscard,      // a cancelled turn never happened: the call returns kCancelled
};

struct TurnOptions {
  SamplerOptions sampler = {};
  size_t max_tokens = 0;                       // 0: as many as the context has room for
  size_t min_tokens = 0;                       // the model cannot end its turn earlier: for measuring
  std::vector<std::string> stop_strings = {};  // not part of the answer
  bool speculate = true;                       // verify guesses from the conversation: the same answer, sooner
  std::stop_token stop = {};
  StopMode stop_mode = StopMode::kKeepPartial;
};

struct Turn {
  std::string text;
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_string;                 // the one that was found
  uint64_t seed = 0;                       // gives the same answer again
  Usage usage;
  Timings timings;
  WorkCounters work;
  std::optional<LostPrefix> lost_prefix;   // set when ids of the standing history had to be read again
};

struct TurnEvent {
  enum class Kind { kPrefill, kText, kFinish };
  Kind kind = Kind::kText;
  std::string_view text = {}; // kText: the next whole characters of the answer
  size_t n_done = 0;          // kPrefill: positions of the prompt that have keys and values, reused ones
  size_t n_total = 0;         //           included, and all of them
  const Turn* turn = nullptr; // kFinish: the turn, already committed
};
// Runs on the calling thread, between passes. Must not throw.
using TurnCallback = std::function<void(const TurnEvent&)>;

class ChatSession {
 public:
  // Errors: kUnsupported when the model has no chat template; kInvalidArgument for a system text that is not
  // UTF-8.
  static Result<ChatSession> create(std::shared_ptr<Engine> engine, SessionOptions options = {});

  ChatSession(ChatSession&&) noexcept;
  ChatSession& operator=(ChatSession&&) noexcept;
  ~ChatSession();

  // Sends a user message and returns the answer.
  // Errors: kBusy; kInvalidArgument (options, or a message that is not UTF-8); kContextFull with both numbers,
  // before any event; kCancelled (kDiscard, or nothing had been sampled yet); kOutOfMemory; the template's.
  Result<Turn> send(std::string_view message, const TurnOptions& options = {}, const TurnCallback& on_event = {});

  // Answers the last user message again; the old answer is gone when the new one is there. Runs at most one
  // token of the prompt through the model. kInvalidArgument when the last message is no answer.
  Result<Turn> regenerate(const TurnOptions& options = {}, const TurnCallback& on_event = {});

  // Keeps the first n messages. Costs nothing; the next turn reuses what still fits.
  // Errors: kBusy; kInvalidArgument when there are fewer, or when n would leave a question unanswered or
  // drop the system message (set_system does that).
  Status rewind_to(size_t n_messages);

  // A conversation that goes on from here on its own. Shares all pages; copies the text and ids of the
  // history, and computes nothing. kBusy.
  Result<ChatSession> fork() const;

  // Forgets the conversation, but for the system message. kBusy.
  Status reset();
  // A new system message (empty: none). It stands in front of everything, so a conversation that has begun is
  // forgotten as by reset(). Errors: kBusy; kInvalidArgument when it is not UTF-8.
  Status set_system(std::string_view text);

  // [{"role": ..., "content": ...}, ...] as committed.
  const Json& messages() const;
  // The ids of the conversation: what was fed, and at the end at most one id that is fed next.
  const Tokens& ids() const;
  const Transcript& transcript() const;
  const KvCacheEntry& kv() const;
  // Sums over the turns that were committed.
  const Usage& usage() const;
  // Of the last committed turn.
  const Timings& timings() const;
  // How many ids a text has, without the template's own. Any time, any thread.
  size_t count_tokens(std::string_view text) const;
  const std::shared_ptr<Engine>& engine() const;

 private:
  struct State;
  explicit ChatSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ibid
