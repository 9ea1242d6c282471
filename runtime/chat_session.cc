#include "runtime/chat_session.h"

#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "runtime/session_state.h"

namespace ibid {
namespace {

// Holds a session for the length of a call, or does not.
class Turnstile {
 public:
  explicit Turnstile(std::atomic<bool>& busy) : busy_(busy), open_(!busy.exchange(true)) {}
  ~Turnstile() {
    if (open_) busy_.store(false);
  }
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;

  Status status() const {
    if (open_) return {};
    return {ErrorCode::kBusy, "the session is in the middle of a turn; it runs one at a time"};
  }

 private:
  std::atomic<bool>& busy_;
  const bool open_;
};

Status check_text(std::string_view name, std::string_view text) {
  if (utf8_is_valid(text)) return {};
  return {ErrorCode::kInvalidArgument, std::string(name) + " is not valid UTF-8"};
}

std::string role_of(const Json& message) { return message.at("role").get<std::string>(); }

}  // namespace

Result<ChatSession> ChatSession::create(std::shared_ptr<Engine> engine, SessionOptions options) {
  CHECK(engine != nullptr);
  if (engine->chat_template() == nullptr) {
    return {ErrorCode::kUnsupported,
            engine->name() + " has no chat template, so it cannot hold a conversation; use an instruction-tuned "
                             "model, or put its chat_template.jinja beside the weights"};
  }
  TRY(check_text("the system message", options.system));
  if (!options.variables.is_object()) {
    return {ErrorCode::kInvalidArgument, "the template's variables must be a JSON object"};
  }
  return ChatSession(std::make_unique<State>(std::move(engine), std::move(options)));
}

ChatSession::ChatSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatSession::ChatSession(ChatSession&&) noexcept = default;
ChatSession& ChatSession::operator=(ChatSession&&) noexcept = default;
ChatSession::~ChatSession() = default;

Result<Turn> ChatSession::send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) {
  const Turnstile turnstile(state_->busy);
  TRY(turnstile.status());
  TRY(check_text("the message", message));
  state_->messages.push_back({{"role", "user"}, {"content", std::string(message)}});
  Result<Turn> turn = state_->run_turn(options, on_event);
  if (!turn.ok()) state_->cut_messages(state_->messages.size() - 1);
  return turn;
}

Result<Turn> ChatSession::regenerate(const TurnOptions& options, const TurnCallback& on_event) {
  const Turnstile turnstile(state_->busy);
  TRY(turnstile.status());
  Json& messages = state_->messages;
  if (messages.empty() || role_of(messages.back()) != "assistant") {
    return {ErrorCode::kInvalidArgument, "there is no answer to generate again"};
  }
  Json answer = std::move(messages.back());
  const bool was_rewound = state_->rewound;
  state_->cut_messages(messages.size() - 1);
  state_->rewound = true;
  Result<Turn> turn = state_->run_turn(options, on_event);
  if (!turn.ok()) {
    messages.push_back(std::move(answer));
    state_->rewound = was_rewound;
  }
  return turn;
}

Status ChatSession::rewind_to(size_t n_messages) {
  const Turnstile turnstile(state_->busy);
  TRY(turnstile.status());
  const Json& messages = state_->messages;
  if (n_messages > messages.size()) {
    return {ErrorCode::kInvalidArgument, "cannot keep " + std::to_string(n_messages) + " messages, there are " +
                                             std::to_string(messages.size())};
  }
  if (n_messages < state_->n_system_messages()) {
    return {ErrorCode::kInvalidArgument, "the system message stays; set_system() replaces it"};
  }
  if (n_messages > 0 && role_of(messages[n_messages - 1]) == "user") {
    return {ErrorCode::kInvalidArgument, "message " + std::to_string(n_messages - 1) +
                                             " is a question; keep its answer or drop it"};
  }
  if (n_messages == messages.size()) return {};
  state_->cut_messages(n_messages);
  state_->rewound = true;
  return {};
}

Result<ChatSession> ChatSession::fork() const {
  const Turnstile turnstile(state_->busy);
  TRY(turnstile.status());
  return ChatSession(std::make_unique<State>(*state_));
}

Status ChatSession::reset() {
  const Turnstile turnstile(state_->busy);
  TRY(turnstile.status());
  state_->begin();
  return {};
}

Status ChatSession::set_system(std::string_view text) {
  const Turnstile turnstile(state_->busy);
  TRY(turnstile.status());
  TRY(check_text("the system message", text));
  state_->options.system = text;
  state_->begin();
  return {};
}

const Json& ChatSession::messages() const { return state_->messages; }
const Tokens& ChatSession::ids() const { return state_->transcript.ids(); }
const Transcript& ChatSession::transcript() const { return state_->transcript; }
const KvCacheEntry& ChatSession::kv() const { return state_->kv; }
const Usage& ChatSession::usage() const { return state_->usage; }
const Timings& ChatSession::timings() const { return state_->timings; }
const std::shared_ptr<Engine>& ChatSession::engine() const { return state_->engine; }

size_t ChatSession::count_tokens(std::string_view text) const {
  return state_->engine->tokenizer().encode(text, TextOrigin::kInput).size();
}

}  // namespace ibid
