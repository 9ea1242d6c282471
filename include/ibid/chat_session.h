// ChatSession: one conversation with a model. Each message costs its own tokens: what was read or said
// before is not read again.
//
//   auto engine = Engine::load("model.gguf");
//   auto chat = ChatSession::create(*engine, {.system = "You are brief."});
//   auto turn = chat->send("Hello!", {}, [](const TurnEvent& event) { std::cout << event.text; });
//
// A session runs one turn at a time. A call while a turn runs (from another thread, or from the turn's own event
// callback) is kBusy and changes nothing. Everything else about a session is for one thread at a time.
//
// All or nothing: a turn that fails, or is cancelled with StopMode::kDiscard, leaves the messages, the ids and the
// keys and values as they were. What it had computed stays in the engine's store if there is room, so that trying
// again is cheap. This holds when the heap is used up as well (kOutOfMemory).
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

// One message of a conversation, as the chat template sees it. A value. Most messages are a role and a text:
// {"user", "Hello!"}. What else a template knows is JSON:
//   {.role = "assistant", .fields = R"({"tool_calls": [...]})"}
// Where `content` is empty and `fields` is not, the message has the content that `fields` say, if any: text parts and
// images are an array there. Messages that a session returns are written the same way.
struct Message {
  std::string role = {};     // "system", "user", "assistant", "tool" ...
  std::string content = {};  // text
  // A JSON object without "role", and without "content" where `content` is not empty; or nothing.
  std::string fields = {};

  bool operator==(const Message&) const = default;
};

class SessionState;

// Options of a turn default to TurnOptions() and not to {}, because gcc 12 warns that {} may be uninitialised.
class IBID_EXPORT ChatSession {
 public:
  // Errors: kUnsupported when the model has no chat template; kInvalidArgument for texts or variables that are not
  // UTF-8, variables that are not a JSON object, or an unknown policy.
  static Result<ChatSession> create(std::shared_ptr<Engine> engine, SessionOptions options = {});

  ChatSession(ChatSession&&) noexcept;
  ChatSession& operator=(ChatSession&&) noexcept;
  ~ChatSession();

  // Sends a user message and returns the answer. Errors: kBusy; kInvalidArgument (options, a constraint without a way
  // on, or a message that is not UTF-8); kContextFull with both numbers, before any event; kCancelled (kDiscard, or
  // nothing had been sampled yet); kOutOfMemory; the template's.
  Result<Turn> send(std::string_view message, const TurnOptions& options = TurnOptions(),
                    const TurnCallback& on_event = {}) {
    return run(TurnStart::send(message), options, on_event);
  }
  // The same for any start of a turn.
  Result<Turn> run(const TurnStart& start, const TurnOptions& options = TurnOptions(),
                   const TurnCallback& on_event = {});

  // The same in two steps: adds a message of any role, with whatever fields the template knows (tool_calls, name),
  // and answers what is there. append() costs nothing. Errors: kBusy; kInvalidArgument: not UTF-8, or fields that are
  // no JSON object or say the role or the content twice; answer(): the last message is an answer already, or there is
  // none.
  Status append(const Message& message);
  Result<Turn> answer(const TurnOptions& options = TurnOptions(), const TurnCallback& on_event = {}) {
    return run(TurnStart::answer(), options, on_event);
  }

  // Reads now, while nobody waits, what the next turn will need: the messages that await an answer, or else the
  // history as the template will show it, the system message of a new conversation included. The next turn then
  // costs only what it adds. Returns how many ids these were, and how many of them were read already. Errors:
  // kBusy; kCancelled (what was read till then is not read again); kContextFull; kOutOfMemory; the template's.
  Result<Usage> prefill(std::stop_token stop = {}, Priority priority = Priority::kNormal);

  // Answers the last user message again. The old answer is dropped once the new one is there. Nothing of the prompt
  // runs through the model. kInvalidArgument when the last message is no answer.
  Result<Turn> regenerate(const TurnOptions& options = TurnOptions(), const TurnCallback& on_event = {}) {
    return run(TurnStart::regenerate(), options, on_event);
  }

  // Puts `text` in place of user message number `message`, and answers it. What came behind that message is dropped
  // once the answer is there. Only the new text is read. kInvalidArgument when that is no user message.
  Result<Turn> edit(size_t message, std::string_view text, const TurnOptions& options = TurnOptions(),
                    const TurnCallback& on_event = {}) {
    return run(TurnStart::edit(message, text), options, on_event);
  }

  // Sends a message and returns n answers to it, computed side by side; the message is read once. Their seeds are
  // the options' seed (or a random one) plus 0 to n - 1. The session goes on with the first answer; choose() makes
  // it go on with another, until the conversation changes. on_event hears of all answers, one at a time. Either all
  // answers come, or an error as of send(). kInvalidArgument for n outside 1 to kMaxAnswers.
  static constexpr size_t kMaxAnswers = 16;
  using AnswersCallback = std::function<void(size_t answer, const TurnEvent&)>;
  Result<std::vector<Turn>> send_for_answers(std::string_view message, size_t n,
                                             const TurnOptions& options = TurnOptions(),
                                             const AnswersCallback& on_event = {});
  // Costs nothing. Errors: kBusy; kInvalidArgument when there is no such answer.
  Status choose(size_t answer);

  // Keeps the first n messages. Costs nothing; the next turn reuses what still fits.
  // Errors: kBusy; kInvalidArgument when there are fewer, or when n would leave a question unanswered or
  // drop the system message (set_system does that).
  Status rewind_to(size_t n_messages);

  // Replaces the history by another. A system message at its beginning becomes the session's. This costs nothing; the
  // next turn reuses the longest part that is the same, with answers as they were sampled.
  // Errors: kBusy; kInvalidArgument as for append().
  Status set_history(const std::vector<Message>& messages);

  // Returns a second conversation that goes on from here on its own, from the same keys and values. Copies the text
  // and ids of the history, and computes nothing. kBusy.
  Result<ChatSession> fork() const;

  // Writes the conversation to a file for its owner alone, all at once or not at all. with_kv: writes its keys and
  // values too, so that load() needs neither the model nor a cache directory to go on. That takes an engine that
  // knows its fingerprint (else kUnsupported). Errors: kBusy; kIo; kOutOfMemory; kInvalidArgument, kLimitExceeded,
  // naming the field, for messages and variables that a file cannot carry (NaN, binary values, what is nested too
  // deep or too large).
  Status save(const std::string& path, const SaveOptions& options = SaveOptions(), SaveReport* report = nullptr) const;
  // Goes on where a saved conversation stopped. Keys and values that are in the file, in the engine's store or in
  // its cache directory are not read again, unless they are damaged or another model's. If some parts of a file
  // are not sound, all messages are still there, and losses() says what is missing, and why keys and values were
  // left out. Answers keep their sampled ids up to the first whose ids are not sound, or not this model's. Errors:
  // kNotFound, kIo, kBadMagic, kUnsupportedVersion, kCorrupt, kBadHeader ... naming the file. Keys and values of a file
  // serve this conversation and its forks alone. They may be anything, so what is computed on top of them enters
  // neither the namespace nor the cache directory, until it is read anew.
  static Result<ChatSession> load(std::shared_ptr<Engine> engine, const std::string& path,
                                  const LoadOptions& options = {});

  // Forgets the conversation, except for the system message. kBusy.
  Status reset();
  // A new system message (empty: none). It stands in front of everything, so a conversation that has begun is
  // forgotten as by reset(). Errors: kBusy; kInvalidArgument when it is not UTF-8.
  Status set_system(std::string_view text);
  // Message number `message` and what belongs to its turn stay when a full context drops turns.
  // Errors: kBusy; kInvalidArgument.
  Status pin(size_t message);
  // Another policy for a full context, from the next turn on; it is saved with the session.
  // Errors: kBusy; kInvalidArgument for an unknown policy.
  Status set_when_full(WhenFull policy);
  // Other variables for the template (a JSON object, or nothing), from the next turn on. What it then writes as before
  // is not read again. Errors: kBusy; kInvalidArgument.
  Status set_variables(const std::string& variables);

  // As committed, in order. May throw std::bad_alloc, as copies of it may.
  std::vector<Message> messages() const;
  size_t n_messages() const;
  // REQUIRES: i < n_messages().
  Message message(size_t i) const;
  // The same as a JSON array of objects, as templates see them: [{"role": ..., "content": ...}, ...].
  std::string messages_json() const;
  // The ids of the conversation: what was fed, and at the end at most one id that is fed next.
  const Tokens& ids() const;
  // How many of the ids have keys and values in memory now. Between turns they may be evicted for others.
  size_t n_in_memory() const;
  WhenFull when_full() const;
  // What load() could not use of its file; nothing in other sessions.
  const SessionLosses& losses() const;
  // Sums over the turns that were committed.
  const Usage& usage() const;
  // Of the last committed turn.
  const Timings& timings() const;
  // How many ids a text has, without the template's own. Any time, any thread. May throw std::bad_alloc.
  size_t count_tokens(std::string_view text) const;
  const std::shared_ptr<Engine>& engine() const;

  // For the files of the library (runtime/session/session_state.h).
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
