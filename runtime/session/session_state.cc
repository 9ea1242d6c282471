#include "runtime/session/session_state.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <new>
#include <utility>

#include "runtime/out_of_heap.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "templates/reply/protocol_messages.h"

namespace ibid {
namespace {

// UTC, as templates want it: 2026-01-31T12:00:00.
std::string iso_time(int64_t unix_ns) {
  using namespace std::chrono;
  const sys_seconds now{duration_cast<seconds>(nanoseconds(unix_ns))};
  const sys_days day = floor<days>(now);
  const year_month_day date(day);
  const hh_mm_ss time(now - day);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text.data();
}

SessionOptions with_time(SessionOptions options, const Engine& engine) {
  if (options.now.empty()) options.now = iso_time(engine.clock().unix_ns());
  return options;
}

TemplateVariables variables_of(const Engine& engine, const Json& given, const std::string& now) {
  TemplateVariables variables;
  variables.values = engine.chat_template()->default_variables();
  variables.values.update(given);
  variables.now = now;
  return variables;
}

PromptPlanner make_planner(const Engine& engine, const SessionOptions& options) {
  if (options.plain) return PromptPlanner(engine.tokenizer(), engine.clock());
  return PromptPlanner(engine.tokenizer(), *engine.chat_template(),
                       variables_of(engine, options.variables, options.now), engine.clock());
}

}  // namespace

ChatSession::State::State(std::shared_ptr<Engine> e, SessionOptions o)
    : engine(std::move(e)), options(with_time(std::move(o), *engine)), branch(new_branch(options.system)) {}

ChatSession::State::State(const State& other)
    : engine(other.engine), options(other.options), branch(other.branch) {}

ChatSession::State::~State() { stop_idle_work(); }

SessionBranch ChatSession::State::new_branch(std::string system) const {
  return {Dialogue(make_planner(*engine, options), std::move(system)),
          SequenceCache(engine, options.cache_namespace), LookBack()};
}

std::unique_ptr<ChatSession::State> ChatSession::State::fork() {
  auto copy = std::make_unique<State>(*this);
  copy->branch.cache.expect_more_elsewhere();
  branch.cache.expect_more_elsewhere();
  return copy;
}

void ChatSession::State::begin(std::string system) {
  branch = new_branch(std::move(system));
  alternatives.clear();
}

std::vector<Json> ChatSession::State::for_template(size_t n_kept, std::vector<Json> added) const {
  const auto may_differ = [](const Json& message) {
    return message.contains("tool_calls") || message.contains("reasoning_content") || is_from(message, Role::kTool);
  };
  if (options.plain || std::none_of(added.begin(), added.end(), may_differ)) return added;
  // The result of a tool is given the name of the call, which the answer in front of the results has.
  const MessageList& messages = branch.dialogue.messages();
  size_t first = n_kept;
  while (first > 0 && is_from(messages[first - 1], Role::kTool)) --first;
  if (first > 0) --first;
  Json all = Json::array();
  for (size_t i = first; i < n_kept; ++i) all.push_back(messages[i]);
  for (Json& message : added) all.push_back(std::move(message));
  all = messages_for_template(std::move(all), engine->reply_format());
  for (size_t i = 0; i < added.size(); ++i) added[i] = std::move(all[n_kept - first + i]);
  return added;
}

void ChatSession::State::change(Proposal proposal) {
  proposal.added = for_template(proposal.n_kept, std::move(proposal.added));
  branch.dialogue.propose(std::move(proposal)).commit();
  alternatives.clear();
}

void ChatSession::State::set_variables(Json variables) {
  if (!options.plain) {
    branch.dialogue.set_variables(*engine->chat_template(), variables_of(*engine, variables, options.now));
  }
  options.variables = std::move(variables);
  alternatives.clear();  // they were answers under other variables
}

void ChatSession::State::begin_after_turn() noexcept {
  alternatives.clear();
  if (options.repair_when_idle) start_idle_work();
}

// --- ahead of a turn

Result<std::unique_ptr<ReadingAhead>> ChatSession::State::begin_reading_ahead(Priority priority, std::stop_token stop,
                                                                              std::shared_ptr<Bell> bell) {
  TRY_ASSIGN(AheadPrompt prompt, branch.dialogue.plan_ahead(branch.cache.n_read()));
  return branch.cache.begin_reading(std::move(prompt), priority, std::move(stop), std::move(bell));
}

Result<Usage> ChatSession::State::read_ahead(Priority priority, std::stop_token stop) try {
  TRY_ASSIGN(const std::unique_ptr<ReadingAhead> reading,
             begin_reading_ahead(priority, std::move(stop), std::make_shared<Bell>()));
  if (reading == nullptr) return Usage{};
  return branch.cache.end_reading(*reading);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

bool ChatSession::State::rewrites_history() {
  const std::optional<size_t> n = branch.dialogue.n_ids_that_stay();
  return n && *n < branch.cache.n_read();
}

// Without memory for it, the next turn reads it.
void ChatSession::State::start_idle_work() noexcept try {
  if (!rewrites_history()) return;
  idle_stop_ = std::stop_source();
  Result<std::unique_ptr<ReadingAhead>> reading =
      begin_reading_ahead(Priority::kLow, idle_stop_.get_token(), std::make_shared<Bell>());
  if (reading.ok()) idle_ = *std::move(reading);
} catch (const std::bad_alloc&) {
}

void ChatSession::State::stop_idle_work() noexcept try {
  const std::unique_ptr<ReadingAhead> reading = std::move(idle_);
  if (reading == nullptr) return;
  idle_stop_.request_stop();
  (void)branch.cache.end_reading(*reading);
} catch (const std::bad_alloc&) {
}

}  // namespace ibid
