#include "runtime/session/session_state.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/text.h"
#include "runtime/session/context_policy.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "templates/reply/protocol_messages.h"

namespace ibid {
namespace {

SessionOptions with_time(SessionOptions options, const EngineState& engine) {
  if (options.now.empty()) options.now = iso_time(engine.clock().unix_ns());
  return options;
}

Status check_engine(const EngineState& engine, bool plain) {
  TRY(engine.check_process());
  TRY(engine.check_answers());
  if (plain || engine.chat_template() != nullptr) return {};
  return {ErrorCode::kUnsupported, engine.name() +
                                       " has no chat template, so it cannot hold a conversation; use an "
                                       "instruction-tuned model, or put its chat_template.jinja next to the weights"};
}

// Returns the edit that replaces the messages of a dialogue from number n_kept on.
Result<PendingEdit> replacement(const Dialogue& dialogue, size_t n_kept, Json added) {
  if (!added.is_array()) return {ErrorCode::kInvalidArgument, "a history must be an array of messages"};
  for (const Json& message : added) TRY(check_message(message));
  const size_t n_messages = dialogue.messages().size();
  if (n_kept > n_messages) {
    return {ErrorCode::kInvalidArgument,
            "cannot keep " + std::to_string(n_kept) + " messages, there are " + std::to_string(n_messages)};
  }
  PendingEdit edit{.n_kept = n_kept, .goes_back = n_kept < n_messages};
  if (n_kept == 0) edit.system = leading_system_text(added);
  auto& others = added.get_ref<Json::array_t&>();
  edit.added.assign(std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  return edit;
}

}  // namespace

SessionGuard::SessionGuard(SessionState& session, IdleWork idle)
    : process_(session.engine->state().check_process()), busy_(session.busy) {
  holds_ = process_.ok() && !busy_.exchange(true);
  if (holds_ && idle == IdleWork::kEnds) session.stop_idle_work();
}

SessionGuard::~SessionGuard() {
  if (holds_) busy_.store(false);
}

Status SessionGuard::status() const {
  if (holds_) return {};
  TRY(process_);
  return {ErrorCode::kBusy, "the session is in the middle of a turn; it runs one at a time"};
}

Result<ChatSession> SessionState::create(std::shared_ptr<Engine> engine, Setup setup) {
  CHECK(engine != nullptr);
  return guarded([&]() -> Result<ChatSession> {
    TRY(check_engine(engine->state(), setup.plain));
    TRY(check_text("the system message", setup.options.system));
    TRY(check_text("the template's clock", setup.options.now));
    TRY(check_variables(setup.variables));
    TRY(check_when_full(setup.options.when_full));
    return ChatSession(std::make_unique<SessionState>(std::move(engine), std::move(setup)));
  });
}

SessionState::SessionState(std::shared_ptr<Engine> e, Setup setup)
    : engine(std::move(e)),
      options(with_time(std::move(setup.options), engine->state())),
      variables(std::move(setup.variables)),
      plain(setup.plain),
      branch(new_branch(options.system)) {}

SessionState::SessionState(const SessionState& other)
    : engine(other.engine),
      options(other.options),
      variables(other.variables),
      plain(other.plain),
      branch(other.branch) {}

SessionState::~SessionState() { stop_idle_work(); }

SessionBranch SessionState::new_branch(std::string system) const {
  const EngineState& parts = engine->state();
  PromptPlanner planner = plain ? PromptPlanner(parts.tokenizer(), parts.clock())
                                : PromptPlanner(parts.tokenizer(), *parts.chat_template(),
                                                TemplateVariables{variables, options.now}, parts.clock());
  return {Dialogue(std::move(planner), std::move(system)), SequenceCache(engine, options.cache_namespace),
          HistoryIndexes()};
}

// --- calls

Status SessionState::append(Json message) {
  return exclusively([&]() -> Status {
    TRY(check_message(message));
    change(PendingEdit::of(branch.dialogue.messages().size(), std::move(message)));
    return {};
  });
}

Status SessionState::set_history(Json history) {
  return exclusively([&]() -> Status {
    if (!history.is_array()) return {ErrorCode::kInvalidArgument, "a history must be an array of messages"};
    for (const Json& message : history) TRY(check_message(message));
    const MessageList& own = branch.dialogue.messages();
    PendingEdit edit;
    edit.system = leading_system_text(history);
    auto& others = history.get_ref<Json::array_t&>();
    others = for_template(0, std::move(others));
    size_t& n_same = edit.n_kept;
    while (n_same < std::min(own.size(), history.size()) && is_same_json(own[n_same], history[n_same])) ++n_same;
    edit.added.assign(std::make_move_iterator(others.begin() + static_cast<std::ptrdiff_t>(n_same)),
                      std::make_move_iterator(others.end()));
    change(std::move(edit));
    return {};
  });
}

Status SessionState::replace_from(size_t n_kept, Json added) {
  return exclusively([&]() -> Status {
    TRY_ASSIGN(PendingEdit edit, replacement(branch.dialogue, n_kept, std::move(added)));
    change(std::move(edit));
    return {};
  });
}

// A prefill in idle time continues if `given` equals the current variables.
Status SessionState::set_variables(Json given) {
  return exclusively(
      [&]() -> Status {
        if (is_same_json(given, variables)) return {};
        TRY(check_variables(given));
        stop_idle_work();
        if (!plain) {
          const EngineState& parts = engine->state();
          branch.dialogue.set_variables(*parts.chat_template(), {given, options.now});
        }
        variables = std::move(given);
        alternatives.clear();  // the answers were generated with the old variables
        return {};
      },
      IdleWork::kGoesOn);
}

Result<PromptSize> SessionState::prompt_size(size_t max_tokens) {
  return exclusively([&]() -> Result<PromptSize> {
    Dialogue& dialogue = branch.dialogue;
    if (!dialogue.may_answer()) {
      const size_t n_tokens = dialogue.transcript().ids().size();
      TRY_ASSIGN(const AheadPrompt prompt, dialogue.plan_ahead(n_tokens));
      return PromptSize{prompt.ids.size(), n_tokens - prompt.n_transcript};
    }
    const size_t n_answer = max_tokens == 0 ? SIZE_MAX : max_tokens;
    return dialogue.measure({engine->max_seq_len(), n_answer}, options.when_full);
  });
}

Result<Tokens> SessionState::prompt_ids(const TurnStart& start) {
  return exclusively([&]() -> Result<Tokens> {
    TRY_ASSIGN(PendingEdit edit, branch.dialogue.edit_for(start));
    return branch.dialogue.prompt_ids(std::move(edit));
  });
}

KvCacheEntry SessionState::kv() const {
  Result<KvCacheEntry> held = branch.cache.held();
  if (!held.ok()) throw std::bad_alloc();
  return *std::move(held);
}

std::unique_ptr<SessionState> SessionState::fork() {
  auto copy = std::make_unique<SessionState>(*this);
  copy->branch.cache.expect_more_elsewhere();
  branch.cache.expect_more_elsewhere();
  return copy;
}

void SessionState::begin(std::string system) {
  branch = new_branch(std::move(system));
  alternatives.clear();
}

std::vector<Json> SessionState::for_template(size_t n_kept, std::vector<Json> added) const {
  const auto may_differ = [](const Json& message) {
    return message.contains("tool_calls") || message.contains("reasoning_content") || is_from(message, Role::kTool);
  };
  if (plain || std::none_of(added.begin(), added.end(), may_differ)) return added;
  // A tool result gets the name of its call, which is in the answer before the results.
  const MessageList& messages = branch.dialogue.messages();
  size_t first = n_kept;
  while (first > 0 && is_from(messages[first - 1], Role::kTool)) --first;
  if (first > 0) --first;
  Json all = Json::array();
  for (size_t i = first; i < n_kept; ++i) all.push_back(messages[i]);
  for (Json& message : added) all.push_back(std::move(message));
  all = messages_for_template(std::move(all), engine->state().reply_format());
  for (size_t i = 0; i < added.size(); ++i) added[i] = std::move(all[n_kept - first + i]);
  return added;
}

void SessionState::change(PendingEdit edit) {
  edit.added = for_template(edit.n_kept, std::move(edit.added));
  branch.dialogue.apply(std::move(edit)).commit();
  alternatives.clear();
}

void SessionState::begin_after_turn() noexcept {
  alternatives.clear();
  if (options.repair_when_idle) start_idle_work();
}

// --- ahead of a turn

Result<std::unique_ptr<PrefillAhead>> SessionState::begin_prefill_ahead(Priority priority, std::stop_token stop,
                                                                        std::shared_ptr<Waker> waker) {
  TRY_ASSIGN(AheadPrompt prompt, branch.dialogue.plan_ahead(branch.cache.n_computed_before()));
  return branch.cache.begin_prefill(std::move(prompt), priority, std::move(stop), std::move(waker));
}

Result<Usage> SessionState::prefill_ahead(Priority priority, std::stop_token stop) {
  TRY_ASSIGN(const std::unique_ptr<PrefillAhead> prefill,
             begin_prefill_ahead(priority, std::move(stop), std::make_shared<Waker>()));
  if (prefill == nullptr) return Usage{};
  return branch.cache.end_prefill(*prefill);
}

bool SessionState::rewrites_history() {
  const std::optional<size_t> n = branch.dialogue.n_tokens_that_stay();
  return n && *n < branch.cache.n_computed_before();
}

// Starts a prefill in idle time. If there is no memory for it, the next turn prefills instead.
void SessionState::start_idle_work() noexcept {
  (void)guarded([&]() -> Status {
    if (!rewrites_history()) return {};
    idle_stop_ = std::stop_source();
    TRY_ASSIGN(idle_, begin_prefill_ahead(Priority::kLow, idle_stop_.get_token(), std::make_shared<Waker>()));
    return {};
  });
}

void SessionState::stop_idle_work() noexcept {
  const std::unique_ptr<PrefillAhead> prefill = std::move(idle_);
  if (prefill == nullptr) return;
  idle_stop_.request_stop();
  (void)guarded([&] { return branch.cache.end_prefill(*prefill); });
}

// --- a call that gives a turn

TurnCall::TurnCall(SessionState& session, const TurnOptions& options, std::shared_ptr<Waker> waker)
    : session_(session), waker_(std::move(waker)), guard_(session), options_(options) {}

Status TurnCall::begin(const TurnStart& start, Delivery delivery) {
  TRY(guard_.status());
  TRY_ASSIGN(PendingEdit edit, session_.branch.dialogue.edit_for(start));
  turn_.emplace(session_.branch, session_.setting(), options_, waker_);
  Status status = turn_->begin(std::move(edit), delivery);
  if (!status.ok()) turn_.reset();
  return status;
}

Result<Turn> TurnCall::finish(const TurnCallback& on_event) {
  TRY(check_process());
  Result<Turn> turn = turn_->finish();
  turn_.reset();
  if (!turn.ok()) return turn;
  // The turn is committed, so nothing may fail any more. A prefill in idle time begins after the turn's last event.
  if (on_event) [&]() noexcept { on_event({.kind = TurnEvent::Kind::kFinish, .turn = &*turn}); }();
  session_.begin_after_turn();
  return turn;
}

}  // namespace ibid
