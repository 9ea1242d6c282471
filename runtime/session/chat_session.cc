#include "ibid/chat_session.h"

#include <utility>

#include "base/check.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/session/message_json.h"
#include "runtime/session/session_state.h"
#include "runtime/session/turn_events.h"
#include "templates/message.h"

namespace ibid {

// A child of fork() has none of the engine's threads, so the work of its sessions cannot be ended. Their state is
// leaked instead of destroyed.
void ChatSession::EndState::operator()(SessionState* state) const {
  if (state->engine->state().check_process().ok()) delete state;
}

ChatSession::ChatSession(std::unique_ptr<SessionState> state) : state_(state.release()) {}
ChatSession::ChatSession(ChatSession&&) noexcept = default;
ChatSession& ChatSession::operator=(ChatSession&&) noexcept = default;
ChatSession::~ChatSession() = default;

Result<ChatSession> ChatSession::create(std::shared_ptr<Engine> engine, SessionOptions options) {
  return guarded([&]() -> Result<ChatSession> {
    TRY_ASSIGN(Json variables, variables_of(options.variables));
    return SessionState::create(std::move(engine), {std::move(options), std::move(variables)});
  });
}

Result<ChatSession> ChatSession::load(std::shared_ptr<Engine> engine, const std::string& path,
                                      const LoadOptions& options) {
  CHECK(engine != nullptr);
  return guarded([&]() -> Result<ChatSession> {
    TRY_ASSIGN(std::unique_ptr<SessionState> state, load_session(std::move(engine), path, options));
    return ChatSession(std::move(state));
  });
}

// --- turns

Result<Turn> ChatSession::run(const TurnStart& start, const TurnOptions& options, const TurnCallback& on_event) {
  return guarded([&]() -> Result<Turn> {
    TurnCall call(*state_, options, std::make_shared<Waker>());
    TRY(call.begin(start, on_event ? Delivery::kUntilStop : Delivery::kNone));
    if (!on_event) return call.finish();
    RunningTurn* const turn = &call.turn();
    const auto wait = [&] { call.wait(); };
    const auto pass_on = [&](size_t, const TurnEvent& event) { on_event(event); };
    TRY(take_events({&turn, 1}, state_->engine->state(), wait, pass_on, [](size_t) {}));
    return call.finish(on_event);
  });
}

Result<Usage> ChatSession::prefill(std::stop_token stop, Priority priority) {
  return state_->exclusively([&] { return state_->prefill_ahead(priority, std::move(stop)); });
}

Result<std::vector<Turn>> ChatSession::send_for_answers(std::string_view message, size_t n, const TurnOptions& options,
                                                        const AnswersCallback& on_event) {
  return state_->exclusively([&]() -> Result<std::vector<Turn>> {
    TRY_ASSIGN(PendingEdit edit, state_->branch.dialogue.edit_for(TurnStart::send(message)));
    if (n < 1 || n > kMaxAnswers) {
      return {ErrorCode::kInvalidArgument,
              "answers: " + std::to_string(n) + ", allowed: 1 to " + std::to_string(kMaxAnswers)};
    }
    return state_->run_turns(std::move(edit), n, options, on_event);
  });
}

Status ChatSession::choose(size_t answer) {
  return state_->exclusively([&] { return state_->choose(answer); });
}

// --- messages

Status ChatSession::append(const Message& message) {
  return guarded([&]() -> Status {
    TRY_ASSIGN(Json json, json_of(message));
    return state_->append(std::move(json));
  });
}

Status ChatSession::set_history(const std::vector<Message>& messages) {
  return guarded([&]() -> Status {
    TRY_ASSIGN(Json json, history_of(messages));
    return state_->set_history(std::move(json));
  });
}

Status ChatSession::rewind_to(size_t n_messages) {
  return state_->exclusively([&]() -> Status {
    const Dialogue& dialogue = state_->branch.dialogue;
    const MessageList& messages = dialogue.messages();
    if (n_messages > messages.size()) {
      return {ErrorCode::kInvalidArgument,
              "cannot keep " + std::to_string(n_messages) + " messages, there are " + std::to_string(messages.size())};
    }
    if (n_messages < dialogue.n_system_messages()) {
      return {ErrorCode::kInvalidArgument, "the system message cannot be removed; set_system() replaces it"};
    }
    if (n_messages > 0 && is_from(messages[n_messages - 1], Role::kUser)) {
      return {ErrorCode::kInvalidArgument, "message " + std::to_string(n_messages - 1) +
                                               " is from the user; keep its answer too, or rewind to before it"};
    }
    if (n_messages == messages.size()) return {};
    state_->change({.n_kept = n_messages, .goes_back = true});
    return {};
  });
}

Status ChatSession::set_variables(const std::string& variables) {
  return guarded([&]() -> Status {
    TRY_ASSIGN(Json json, variables_of(variables));
    return state_->set_variables(std::move(json));
  });
}

Result<ChatSession> ChatSession::fork() const {
  return state_->exclusively([&]() -> Result<ChatSession> { return ChatSession(state_->fork()); });
}

Status ChatSession::reset() {
  return state_->exclusively([&]() -> Status {
    state_->begin(state_->branch.dialogue.system());
    return {};
  });
}

Status ChatSession::set_system(std::string_view text) {
  return state_->exclusively([&]() -> Status {
    TRY(check_text("the system message", text));
    state_->begin(std::string(text));
    return {};
  });
}

Status ChatSession::pin(size_t message) {
  return state_->exclusively([&]() -> Status {
    Dialogue& dialogue = state_->branch.dialogue;
    if (message >= dialogue.messages().size()) {
      return {ErrorCode::kInvalidArgument, "there is no message " + std::to_string(message)};
    }
    PendingEdit edit{.n_kept = dialogue.messages().size(), .pinned = dialogue.pinned()};
    edit.pinned->insert(message);
    dialogue.apply(std::move(edit)).commit();
    return {};
  });
}

// A prefill in idle time continues, because it does not depend on the policy.
Status ChatSession::set_when_full(WhenFull policy) {
  return state_->exclusively(
      [&]() -> Status {
        TRY(check_when_full(policy));
        state_->options.when_full = policy;
        return {};
      },
      IdleWork::kGoesOn);
}

// Does not stop a prefill in idle time: save() reads nothing that this prefill writes, and a program may save after
// every turn.
Status ChatSession::save(const std::string& path, const SaveOptions& options, SaveReport* report) const {
  return state_->exclusively(
      [&]() -> Status {
        if (state_->plain) return {ErrorCode::kUnsupported, "a conversation without a chat template cannot be saved"};
        SaveReport unused;
        return save_session(*state_, path, options.with_kv, report == nullptr ? unused : *report);
      },
      IdleWork::kGoesOn);
}

// --- accessors

std::vector<Message> ChatSession::messages() const {
  std::vector<Message> out;
  for (const Json& message : state_->messages()) out.push_back(message_of(message));
  return out;
}

size_t ChatSession::n_messages() const { return state_->messages().size(); }

Message ChatSession::message(size_t i) const {
  CHECK_LT(i, n_messages());
  return message_of(state_->messages()[i]);
}

std::string ChatSession::messages_json() const { return json_to_string(state_->messages()); }
const Tokens& ChatSession::ids() const { return state_->transcript().ids(); }
size_t ChatSession::n_in_memory() const { return state_->kv().length(); }
WhenFull ChatSession::when_full() const { return state_->options.when_full; }
const LoadWarnings& ChatSession::load_warnings() const { return state_->load_warnings; }
const Usage& ChatSession::usage() const { return state_->branch.dialogue.usage(); }
const Timings& ChatSession::timings() const { return state_->branch.dialogue.timings(); }
const std::shared_ptr<Engine>& ChatSession::engine() const { return state_->engine; }

size_t ChatSession::count_tokens(std::string_view text) const {
  return engine()->state().tokenizer().encode(text, TextOrigin::kInput).size();
}

}  // namespace ibid
