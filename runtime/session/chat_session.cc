#include "runtime/session/chat_session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "runtime/out_of_heap.h"
#include "runtime/session/message_checks.h"
#include "runtime/session/session_state.h"
#include "runtime/session/turn_call.h"
#include "runtime/session/turnstile.h"

namespace ibid {
namespace {


Status check_engine(const Engine& engine) {
  TRY(engine.check_process());
  if (engine.chat_template() != nullptr) return {};
  return {ErrorCode::kUnsupported,
          engine.name() + " has no chat template, so it cannot hold a conversation; use an instruction-tuned "
                          "model, or put its chat_template.jinja beside the weights"};
}

Json user_message(std::string_view text) { return text_message("user", std::string(text)); }

}  // namespace

Result<ChatSession> ChatSession::create(std::shared_ptr<Engine> engine, SessionOptions options) try {
  CHECK(engine != nullptr);
  TRY(check_engine(*engine));
  TRY(check_text("the system message", options.system));
  TRY(check_text("the template's clock", options.now));
  TRY(check_variables(options.variables));
  TRY(check_when_full(options.when_full));
  return ChatSession(std::make_unique<State>(std::move(engine), std::move(options)));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

// A child of fork() has none of the engine's threads, so nobody could end what its sessions may be in the middle
// of. Their state is forgotten, not destroyed.
void ChatSession::EndState::operator()(State* state) const {
  if (state->engine->check_process().ok()) delete state;
}

ChatSession::ChatSession(std::unique_ptr<State> state) : engine_(state->engine), state_(state.release()) {}
ChatSession::ChatSession(ChatSession&&) noexcept = default;
ChatSession& ChatSession::operator=(ChatSession&&) noexcept = default;
ChatSession::~ChatSession() = default;

Result<Turn> ChatSession::send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) try {
  TurnCall call(*this, options, std::make_shared<Bell>());
  TRY(call.send(message, on_event, static_cast<bool>(on_event)));
  return call.run(on_event);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::append(Json message) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  TRY(check_message(message));
  state_->messages.push_back(std::move(message));
  state_->alternatives.clear();
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<Turn> ChatSession::answer(const TurnOptions& options, const TurnCallback& on_event) try {
  TurnCall call(*this, options, std::make_shared<Bell>());
  TRY(call.answer(on_event, static_cast<bool>(on_event)));
  return call.run(on_event);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<Usage> ChatSession::prefill(std::stop_token stop, Priority priority) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  return state_->read_ahead(priority, std::move(stop));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<Turn> ChatSession::regenerate(const TurnOptions& options, const TurnCallback& on_event) try {
  TurnCall call(*this, options, std::make_shared<Bell>());
  TRY(call.regenerate(on_event, static_cast<bool>(on_event)));
  return call.run(on_event);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<Turn> ChatSession::edit(size_t message, std::string_view text, const TurnOptions& options,
                               const TurnCallback& on_event) try {
  TurnCall call(*this, options, std::make_shared<Bell>());
  TRY(call.edit(message, text, on_event, static_cast<bool>(on_event)));
  return call.run(on_event);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::rewind_to(size_t n_messages) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  const Json& messages = state_->messages;
  if (n_messages > messages.size()) {
    return {ErrorCode::kInvalidArgument, "cannot keep " + std::to_string(n_messages) + " messages, there are " +
                                             std::to_string(messages.size())};
  }
  if (n_messages < state_->n_system_messages()) {
    return {ErrorCode::kInvalidArgument, "the system message stays; set_system() replaces it"};
  }
  if (n_messages > 0 && is_from(messages[n_messages - 1], "user")) {
    return {ErrorCode::kInvalidArgument, "message " + std::to_string(n_messages - 1) +
                                             " is a question; keep its answer or drop it"};
  }
  if (n_messages == messages.size()) return {};
  state_->alternatives.clear();
  state_->cut_messages(n_messages);
  state_->rewound = true;
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::set_history(Json history) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  if (!history.is_array()) return {ErrorCode::kInvalidArgument, "a history is an array of messages"};
  for (const Json& message : history) TRY(check_message(message));
  const Json& messages = state_->messages;
  size_t n_same = 0;
  while (n_same < std::min(messages.size(), history.size()) && is_same_json(messages[n_same], history[n_same])) {
    ++n_same;
  }
  state_->options.system = leading_system_text(history);
  state_->alternatives.clear();
  state_->cut_messages(n_same);
  state_->messages = std::move(history);
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<ChatSession> ChatSession::fork() const try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  auto copy = std::make_unique<State>(*state_);
  // From here on either may read what the other will need, so both have to ask the store again.
  copy->search_store = state_->search_store = true;
  return ChatSession(std::move(copy));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::reset() try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  state_->begin(state_->options.system);
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::set_system(std::string_view text) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  TRY(check_text("the system message", text));
  state_->begin(std::string(text));
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::pin(size_t message) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  if (message >= state_->messages.size()) {
    return {ErrorCode::kInvalidArgument, "there is no message " + std::to_string(message)};
  }
  state_->pinned.insert(message);
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::set_when_full(WhenFull policy) try {
  const Turnstile turnstile(*state_, IdleWork::kGoesOn);  // which does not ask for it
  TRY(turnstile.status());
  TRY(check_when_full(policy));
  state_->options.when_full = policy;
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

// --- files

Status ChatSession::save(const std::string& path, const SaveOptions& options, SaveReport* report) const try {
  // save() reads nothing that idle work writes, and a program that saves after every turn wants that work to go on.
  const Turnstile turnstile(*state_, IdleWork::kGoesOn);
  TRY(turnstile.status());
  SaveReport unused;
  return state_->save(path, options.with_kv, report == nullptr ? unused : *report);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<ChatSession> ChatSession::load(std::shared_ptr<Engine> engine, const std::string& path,
                                      const LoadOptions& options) try {
  CHECK(engine != nullptr);
  TRY(check_engine(*engine));
  TRY_ASSIGN(std::unique_ptr<State> state, State::load(std::move(engine), path, options));
  return ChatSession(std::move(state));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

// --- several answers

Result<std::vector<Turn>> ChatSession::send_for_answers(std::string_view message, size_t n, const TurnOptions& options,
                                                        const AnswersCallback& on_event) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  TRY(check_text("the message", message));
  if (n < 1 || n > kMaxAnswers) {
    return {ErrorCode::kInvalidArgument, "answers: " + std::to_string(n) + ", allowed is 1 to " +
                                             std::to_string(kMaxAnswers)};
  }
  TRY_ASSIGN(const Sampler sampler, Sampler::create(options.sampler));
  State& state = *state_;
  state.messages.push_back(user_message(message));
  Result<std::vector<Turn>> turns = state.run_turns(n, sampler.seed(), options, on_event);
  if (!turns.ok()) state.cut_messages(state.messages.size() - 1);
  return turns;
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::choose(size_t answer) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  return state_->choose(answer);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

// --- what there is

const Json& ChatSession::messages() const { return state_->messages; }
const Tokens& ChatSession::ids() const { return state_->transcript.ids(); }
const Transcript& ChatSession::transcript() const { return state_->transcript; }
WhenFull ChatSession::when_full() const { return state_->options.when_full; }
const SessionLosses& ChatSession::losses() const { return state_->losses; }
const Usage& ChatSession::usage() const { return state_->usage; }
const Timings& ChatSession::timings() const { return state_->timings; }
const std::shared_ptr<Engine>& ChatSession::engine() const { return engine_; }

KvCacheEntry ChatSession::kv() const {
  Result<KvCacheEntry> held = state_->held_kv();
  if (!held.ok()) throw std::bad_alloc();
  return *std::move(held);
}

size_t ChatSession::count_tokens(std::string_view text) const {
  return engine_->tokenizer().encode(text, TextOrigin::kInput).size();
}

}  // namespace ibid
