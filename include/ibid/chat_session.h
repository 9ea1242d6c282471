// ChatSession: one conversation with a model. Each message costs only its own tokens, because earlier ones stay cached.
//   auto engine = Engine::load("model.gguf");
//   auto chat = ChatSession::create(*engine, {.system = "You are brief."});
//   auto turn = chat->send("Hello!", {}, [](const TurnEvent& event) { std::cout << event.text; });
// A session holds its engine, and runs one turn at a time. A call during a turn (from another thread, or from the
// turn's event callback) returns kBusy and changes nothing. Apart from that, one thread at a time uses a session.
//
// All or nothing: a turn that fails, or is cancelled with StopMode::kDiscard, leaves the messages, tokens, keys and
// values unchanged, even if the heap is exhausted (kOutOfMemory). If there is room, the keys and values (KV) that the
// turn computed stay in the engine's store, so that a retry is cheap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/engine.h"
#include "ibid/result.h"
#include "ibid/session_options.h"
#include "ibid/token.h"
#include "ibid/turn.h"
#include "ibid/usage.h"

namespace ibid {

// One message of a conversation, as the chat template sees it. A value. Most messages are a role and a text: {"user",
// "Hello!"}. Other fields that the template uses are given as JSON:
//   {.role = "assistant", .fields = R"({"tool_calls": [...]})"}
// If `content` is empty and `fields` is not, the content is the member "content" of `fields`, if any: an array for text
// parts and images. Messages that a session returns follow the same rules.
struct Message {
  std::string role = {};     // "system", "user", "assistant", "tool" ...
  std::string content = {};  // text
  // The other fields, as a JSON object without "role", and without "content" unless `content` is empty. "": no fields.
  std::string fields = {};

  bool operator==(const Message&) const = default;
};

class SessionState;

// TurnOptions() is the default argument in place of {}, because gcc 12 warns that {} may be uninitialised.
class IBID_EXPORT ChatSession {
 public:
  // Starts a conversation. Errors: kUnsupported if the model has no chat template; kInvalidArgument for texts or
  // variables that are not UTF-8, variables that are not a JSON object, or an unknown policy.
  static Result<ChatSession> create(std::shared_ptr<Engine> engine, SessionOptions options = {});

  ChatSession(ChatSession&&) noexcept;
  ChatSession& operator=(ChatSession&&) noexcept;
  ~ChatSession();

  // Sends a user message and returns the answer. Errors: kBusy; kInvalidArgument (options, a constraint that allows
  // neither a token nor the end, a message that is not UTF-8); kContextFull, with needed and available tokens, before
  // any event; kCancelled (with StopMode::kDiscard, or before the first sampled token); kOutOfMemory; those of the
  // template.
  Result<Turn> send(std::string_view message, const TurnOptions& options = TurnOptions(),
                    const TurnCallback& on_event = {}) {
    return run(TurnStart::send(message), options, on_event);
  }
  // Runs a turn like send(), but with any kind of start (TurnStart).
  Result<Turn> run(const TurnStart& start, const TurnOptions& options = TurnOptions(),
                   const TurnCallback& on_event = {});

  // send() in two steps: append() adds a message of any role, with any fields that the template uses (tool_calls,
  // name), and computes nothing; answer() answers the messages. Errors: kBusy; kInvalidArgument from append(): not
  // UTF-8, fields are not a JSON object or repeat role or content; from answer(): there are no messages, or the last
  // one is an answer.
  Status append(const Message& message);
  Result<Turn> answer(const TurnOptions& options = TurnOptions(), const TurnCallback& on_event = {}) {
    return run(TurnStart::answer(), options, on_event);
  }

  // Prefills the next prompt ahead of time: the messages that await an answer, or else the history as the template will
  // render it, including the system message of a new conversation. The next turn then prefills only the tokens that it
  // adds. Returns the number of tokens, and how many of these were cached. Errors: kBusy; kCancelled (tokens prefilled
  // until then stay cached); kContextFull; kOutOfMemory; those of the template.
  Result<Usage> prefill(std::stop_token stop = {}, Priority priority = Priority::kNormal);

  // Answers the last user message again; prefills nothing unless the prompt was evicted. The new answer replaces the
  // old one when the new one is complete. kInvalidArgument if the last message is not an answer.
  Result<Turn> regenerate(const TurnOptions& options = TurnOptions(), const TurnCallback& on_event = {}) {
    return run(TurnStart::regenerate(), options, on_event);
  }

  // Continues the last message, an answer that was cut off or that the caller supplied, from its end: its sampled
  // tokens stay, and nothing is prefilled unless they were evicted. Turn::text is the added text only; a constraint
  // applies to the whole message. kInvalidArgument if the last message is not an answer, has tool calls or no text, if
  // the template does not show it, or if no text that the constraint allows begins with it; kContextFull, whatever the
  // policy.
  Result<Turn> continue_answer(const TurnOptions& options = TurnOptions(), const TurnCallback& on_event = {}) {
    return run(TurnStart::continuing(), options, on_event);
  }

  // Replaces the text of user message number `message`, and answers it. Later messages are dropped when the answer is
  // complete. Prefills only the new text. kInvalidArgument if message number `message` is not a user message.
  Result<Turn> edit(size_t message, std::string_view text, const TurnOptions& options = TurnOptions(),
                    const TurnCallback& on_event = {}) {
    return run(TurnStart::edit(message, text), options, on_event);
  }

  // Sends a message and returns n answers to it, decoded in parallel after one prefill. Their seeds are the options'
  // seed (or a random one) plus 0 to n - 1. The session continues with the first answer; choose() selects another one,
  // until the conversation changes. on_event receives the events of all answers, one call at a time. Returns all n
  // answers, or an error of send(). kInvalidArgument for n outside 1 to kMaxAnswers.
  static constexpr size_t kMaxAnswers = 16;
  using AnswersCallback = std::function<void(size_t answer, const TurnEvent&)>;
  Result<std::vector<Turn>> send_for_answers(std::string_view message, size_t n,
                                             const TurnOptions& options = TurnOptions(),
                                             const AnswersCallback& on_event = {});
  // Selects the answer to continue with; computes nothing. Errors: kBusy; kInvalidArgument if there is no such answer.
  Status choose(size_t answer);

  // Keeps the first n messages. Computes nothing; the next turn reuses the KV of the remaining prefix. Errors: kBusy;
  // kInvalidArgument if there are fewer messages, if the last kept message would be a user message, or if this would
  // drop the system message (use set_system()).
  Status rewind_to(size_t n_messages);

  // Replaces the history. A system message at its beginning becomes the session's system message. Computes nothing; the
  // next turn reuses the KV of the longest common prefix, also that of sampled answers which stay the same. Errors:
  // kBusy; kInvalidArgument as for append().
  Status set_history(const std::vector<Message>& messages);

  // Returns an independent copy of the conversation that shares its keys and values. Copies text and tokens of the
  // history; computes nothing. Error: kBusy.
  Result<ChatSession> fork() const;

  // Writes the conversation atomically to a file that only its owner can read. with_kv: includes keys and values, so
  // that load() can resume without prefill and without a cache directory; this requires an engine with a fingerprint
  // (else kUnsupported). Errors: kBusy; kIo; kOutOfMemory; kInvalidArgument and kLimitExceeded, naming the field, for
  // messages and variables that the format cannot store (NaN, binary values, too deeply nested, too large).
  Status save(const std::string& path, const SaveOptions& options = SaveOptions(), SaveReport* report = nullptr) const;
  // Resumes a saved conversation. Tokens whose KV is in the file, the engine's store or its cache directory are not
  // prefilled again, unless the KV is damaged or of another model. If parts of the file are damaged, all messages are
  // still loaded, and load_warnings() lists what is missing and why KV was not used. Answers keep their sampled tokens
  // up to the first answer with tokens that are damaged or not of this model. KV from a file is not trusted: only this
  // conversation and its forks use it, and KV computed from it is added neither to the namespace nor to the cache
  // directory until it is prefilled anew. Errors: kNotFound, kIo, kBadMagic, kUnsupportedVersion, kCorrupt, kBadHeader
  // ... naming the file.
  static Result<ChatSession> load(std::shared_ptr<Engine> engine, const std::string& path,
                                  const LoadOptions& options = {});

  // Drops all messages except the system message. Error: kBusy.
  Status reset();
  // Replaces the system message (empty: removes it). Every prompt begins with it, so the other messages are dropped as
  // by reset(). Errors: kBusy; kInvalidArgument if not UTF-8.
  Status set_system(std::string_view text);
  // Marks message number `message` and the rest of its turn to be kept when turns are dropped from a full context.
  // Errors: kBusy; kInvalidArgument.
  Status pin(size_t message);
  // Sets the policy for a full context, from the next turn on; save() stores the policy. Errors: kBusy;
  // kInvalidArgument for an unknown policy.
  Status set_when_full(WhenFull policy);
  // Sets the template's variables (a JSON object, or empty), from the next turn on. The part of the prompt that renders
  // as before is not prefilled again. Errors: kBusy; kInvalidArgument.
  Status set_variables(const std::string& variables);

  // The committed messages, in order. May throw std::bad_alloc, because it copies them.
  std::vector<Message> messages() const;
  size_t n_messages() const;
  // REQUIRES: i < n_messages().
  Message message(size_t i) const;
  // All messages as a JSON array of objects, as templates see them: [{"role": ..., "content": ...}, ...].
  std::string messages_json() const;
  // The tokens of the conversation: those with KV, and at most one more, whose KV the next turn computes.
  const Tokens& ids() const;
  // Number of leading tokens whose keys and values are in memory now. The keys and values may be evicted between turns.
  size_t n_in_memory() const;
  WhenFull when_full() const;
  // The parts of the file that load() could not use; empty for other sessions.
  const LoadWarnings& load_warnings() const;
  // Sums over the turns that were committed.
  const Usage& usage() const;
  // Timings of the last committed turn.
  const Timings& timings() const;
  // Number of tokens of a text alone, without tokens that the chat template adds. Any thread, at any time. May throw
  // std::bad_alloc.
  size_t count_tokens(std::string_view text) const;
  const std::shared_ptr<Engine>& engine() const;

  // Internal (runtime/session/session_state.h).
  explicit ChatSession(std::unique_ptr<SessionState> state);
  SessionState& state() { return *state_; }
  const SessionState& state() const { return *state_; }

 private:
  struct EndState {
    void operator()(SessionState* state) const;
  };
  std::unique_ptr<SessionState, EndState> state_;
};

}  // namespace ibid
