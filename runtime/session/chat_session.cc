#include "runtime/session/chat_session.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"
#include "runtime/out_of_heap.h"
#include "runtime/session/context_policy.h"
#include "runtime/session/message_checks.h"
#include "runtime/session/session_state.h"
#include "runtime/session/turn_call.h"
#include "runtime/session/turnstile.h"
#include "templates/message.h"

namespace ibid {
namespace {

Status check_engine(const Engine& engine, bool plain = false) {
  TRY(engine.check_process());
  TRY(engine.check_answers());
  if (plain || engine.chat_template() != nullptr) return {};
  return {ErrorCode::kUnsupported,
          engine.name() + " has no chat template, so it cannot hold a conversation; use an instruction-tuned "
                          "model, or put its chat_template.jinja beside the weights"};
}

}  // namespace

Result<ChatSession> ChatSession::create(std::shared_ptr<Engine> engine, SessionOptions options) try {
  CHECK(engine != nullptr);
  TRY(check_engine(*engine, options.plain));
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
  state_->change(Proposal::of(state_->branch.dialogue.messages().size(), std::move(message)));
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

Result<PromptSize> ChatSession::prompt_size(size_t max_tokens) const try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  Dialogue& dialogue = state_->branch.dialogue;
  if (!dialogue.awaits_answer()) {
    const size_t n_ids = dialogue.transcript().ids().size();
    TRY_ASSIGN(const AheadPrompt prompt, dialogue.plan_ahead(n_ids));
    return PromptSize{prompt.ids.size(), n_ids - prompt.n_transcript};
  }
  const size_t n_answer = max_tokens == 0 ? SIZE_MAX : max_tokens;
  return dialogue.measure({engine_->max_seq_len(), n_answer}, state_->options.when_full);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::rewind_to(size_t n_messages) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  const Dialogue& dialogue = state_->branch.dialogue;
  const MessageList& messages = dialogue.messages();
  if (n_messages > messages.size()) {
    return {ErrorCode::kInvalidArgument, "cannot keep " + std::to_string(n_messages) + " messages, there are " +
                                             std::to_string(messages.size())};
  }
  if (n_messages < dialogue.n_system_messages()) {
    return {ErrorCode::kInvalidArgument, "the system message stays; set_system() replaces it"};
  }
  if (n_messages > 0 && is_from(messages[n_messages - 1], Role::kUser)) {
    return {ErrorCode::kInvalidArgument, "message " + std::to_string(n_messages - 1) +
                                             " is a question; keep its answer or drop it"};
  }
  if (n_messages == messages.size()) return {};
  state_->change({.n_kept = n_messages, .goes_back = true});
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::set_history(Json history) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  if (!history.is_array()) return {ErrorCode::kInvalidArgument, "a history is an array of messages"};
  for (const Json& message : history) TRY(check_message(message));
  const MessageList& messages = state_->branch.dialogue.messages();
  Proposal proposal;
  proposal.system = leading_system_text(history);
  auto& others = history.get_ref<Json::array_t&>();
  others = state_->for_template(0, std::move(others));
  size_t& n_same = proposal.n_kept;
  while (n_same < std::min(messages.size(), history.size()) && is_same_json(messages[n_same], history[n_same])) {
    ++n_same;
  }
  proposal.added.assign(std::make_move_iterator(others.begin() + static_cast<std::ptrdiff_t>(n_same)),
                        std::make_move_iterator(others.end()));
  state_->change(std::move(proposal));
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

namespace {

// What replaces the messages of a dialogue from a place on.
Result<Proposal> replacement(const Dialogue& dialogue, size_t n_kept, Json added) {
  if (!added.is_array()) return {ErrorCode::kInvalidArgument, "a history is an array of messages"};
  for (const Json& message : added) TRY(check_message(message));
  const size_t n_messages = dialogue.messages().size();
  if (n_kept > n_messages) {
    return {ErrorCode::kInvalidArgument, "cannot keep " + std::to_string(n_kept) + " messages, there are " +
                                             std::to_string(n_messages)};
  }
  Proposal proposal{.n_kept = n_kept, .goes_back = n_kept < n_messages};
  if (n_kept == 0) proposal.system = leading_system_text(added);
  auto& others = added.get_ref<Json::array_t&>();
  proposal.added.assign(std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  return proposal;
}

}  // namespace

Status ChatSession::replace_from(size_t n_kept, Json added) try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  TRY_ASSIGN(Proposal proposal, replacement(state_->branch.dialogue, n_kept, std::move(added)));
  state_->change(std::move(proposal));
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::set_variables(Json variables) try {
  const Turnstile turnstile(*state_, IdleWork::kGoesOn);  // as long as they are the same
  TRY(turnstile.status());
  if (is_same_json(variables, state_->options.variables)) return {};
  TRY(check_variables(variables));
  state_->stop_idle_work();
  state_->set_variables(std::move(variables));
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<ChatSession> ChatSession::fork() const try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  return ChatSession(state_->fork());
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::reset() try {
  const Turnstile turnstile(*state_);
  TRY(turnstile.status());
  state_->begin(state_->branch.dialogue.system());
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
  const Dialogue& dialogue = state_->branch.dialogue;
  if (message >= dialogue.messages().size()) {
    return {ErrorCode::kInvalidArgument, "there is no message " + std::to_string(message)};
  }
  Proposal proposal{.n_kept = dialogue.messages().size(), .pinned = dialogue.pinned()};
  proposal.pinned->insert(message);
  state_->branch.dialogue.propose(std::move(proposal)).commit();
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
  if (state_->options.plain) return {ErrorCode::kUnsupported, "a conversation without a template is not saved"};
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

SavedSession ChatSession::to_saved() const { return state_->to_saved(); }

Result<ChatSession> ChatSession::resume(std::shared_ptr<Engine> engine, const SavedSession& saved,
                                        const LoadOptions& options) try {
  CHECK(engine != nullptr);
  TRY(check_engine(*engine));
  TRY_ASSIGN(std::unique_ptr<State> state, State::resume(std::move(engine), saved, options));
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
  const size_t n_messages = state_->branch.dialogue.messages().size();
  return state_->run_turns(Proposal::of(n_messages, make_message(Role::kUser, std::string(message))), n, options,
                           on_event);
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

const Json& ChatSession::messages() const { return state_->branch.dialogue.messages().json(); }
const Tokens& ChatSession::ids() const { return state_->branch.dialogue.transcript().ids(); }
const Transcript& ChatSession::transcript() const { return state_->branch.dialogue.transcript(); }
WhenFull ChatSession::when_full() const { return state_->options.when_full; }
const SessionLosses& ChatSession::losses() const { return state_->losses; }
size_t ChatSession::n_bytes() const { return sizeof(State) + state_->branch.dialogue.n_bytes(); }
const Usage& ChatSession::usage() const { return state_->branch.dialogue.usage(); }
const Timings& ChatSession::timings() const { return state_->branch.dialogue.timings(); }
const std::shared_ptr<Engine>& ChatSession::engine() const { return engine_; }

KvCacheEntry ChatSession::kv() const {
  Result<KvCacheEntry> held = state_->branch.cache.held();
  if (!held.ok()) throw std::bad_alloc();
  return *std::move(held);
}

size_t ChatSession::count_tokens(std::string_view text) const {
  return engine_->tokenizer().encode(text, TextOrigin::kInput).size();
}

}  // namespace ibid
