#include "runtime/session/session_state.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <new>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "cache/store/token_prefix.h"
#include "runtime/answer/reading_ahead.h"
#include "runtime/session/context_policy.h"
#include "runtime/session/message_checks.h"
#include "runtime/stopwatch.h"

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

double per_second(size_t n, double ms) { return ms > 0 ? static_cast<double>(n) * 1000.0 / ms : 0; }

PromptPlanner make_planner(const Engine& engine, const SessionOptions& options) {
  TemplateVariables variables;
  variables.values = engine.chat_template()->default_variables();
  variables.values.update(options.variables);
  variables.now = options.now;
  return PromptPlanner(engine.tokenizer(), *engine.chat_template(), std::move(variables), engine.clock());
}

// For constructors, which have no other way to fail.
KvCacheEntry shared_pages(const KvCacheEntry& entry) {
  Result<KvCacheEntry> fork = entry.fork();
  if (!fork.ok()) throw std::bad_alloc();
  return *std::move(fork);
}

}  // namespace

Json text_message(const char* role, std::string text) {
  Json message = Json::object();
  message["role"] = role;
  message["content"] = std::move(text);
  return message;
}

std::string leading_system_text(const Json& messages) {
  if (messages.empty() || !is_from(messages[0], "system")) return {};
  const auto content = messages[0].find("content");
  return content != messages[0].end() && content->is_string() ? content->get<std::string>() : std::string();
}

SessionBranch::SessionBranch(std::shared_ptr<Engine> e, const SessionOptions& options)
    : engine(std::move(e)), planner(make_planner(*engine, options)), kv(engine->pool()) {}

SessionBranch::SessionBranch(const SessionBranch& other)
    : engine(other.engine),
      messages(other.messages),
      pinned(other.pinned),
      transcript(other.transcript),
      n_numbered(other.n_numbered),
      planner(other.planner),
      kv(shared_pages(other.kv)),
      at_rest(engine->store().copy(other.at_rest)),
      foreign(other.foreign),
      n_read(other.n_read),
      prompt_end(other.prompt_end),
      drafter(other.drafter),
      n_indexed(other.n_indexed),
      history(other.history),
      n_counted(other.n_counted),
      usage(other.usage),
      timings(other.timings),
      rewound(other.rewound),
      search_store(other.search_store) {
  if (other.ahead) {
    ahead = ReadAhead{engine->store().copy(other.ahead->rows), other.ahead->foreign, other.ahead->n_transcript,
                      other.ahead->logits};
  }
}

ChatSession::State::State(std::shared_ptr<Engine> e, SessionOptions o)
    : SessionBranch(std::move(e), o), options(std::move(o)) {
  if (options.now.empty()) options.now = iso_time(engine->clock().unix_ns());
  begin(options.system);
}

ChatSession::State::State(const State& other)
    : SessionBranch(other), options(other.options) {}

ChatSession::State::~State() { stop_idle_work(); }

void ChatSession::State::begin(std::string system) {
  static_assert(std::is_nothrow_move_assignable_v<SessionBranch>);
  SessionBranch fresh(engine, options);
  if (!system.empty()) fresh.messages.push_back(text_message("system", system));
  static_cast<SessionBranch&>(*this) = std::move(fresh);
  alternatives.clear();
  options.system = std::move(system);
}

void ChatSession::State::cut_messages(size_t n) {
  CHECK_LE(n, messages.size());
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(n), messages.end());
  pinned.erase(pinned.lower_bound(n), pinned.end());
  n_numbered = std::min(n_numbered, n);
  planner.messages_changed_from(n);
}

bool ChatSession::State::awaits_answer() const {
  if (messages.empty()) return false;
  const std::string& role = messages.back().at("role").get_ref<const std::string&>();
  return role != "assistant" && role != "system";
}

Result<PromptDelta> ChatSession::State::plan_within_context(size_t n_answer, Turn& turn,
                                                            std::optional<FullHistory>& full) {
  const ContextRoom room{engine->max_seq_len(), n_answer};
  TRY_ASSIGN(PromptDelta delta, planner.plan(messages, transcript, turn.work, turn.timings));
  if (delta.n_prompt <= room.max_tokens) return delta;
  planner.given_up(delta);
  if (options.when_full == WhenFull::kError) return context_full(delta.n_prompt, room.max_tokens);
  const auto count_tokens = [&](const Json& fewer, size_t first_changed) -> Result<size_t> {
    planner.messages_changed_from(first_changed);
    Result<PromptDelta> trial = planner.plan(fewer, transcript, turn.work, turn.timings);
    planner.messages_changed_from(first_changed);
    TRY(trial.status());
    planner.given_up(*trial);
    return trial->n_prompt;
  };
  TRY_ASSIGN(FittedMessages fitted, fit_messages(options.when_full, messages, pinned, room, count_tokens));
  full = FullHistory{std::exchange(messages, std::move(fitted.messages)),
                     std::exchange(pinned, std::move(fitted.pinned)), fitted.first_changed};
  turn.left_out = fitted.left_out;
  return planner.plan(messages, transcript, turn.work, turn.timings);
}

void ChatSession::State::number_replies(size_t n_known) noexcept {
  n_known = std::min(n_known, n_numbered);
  n_numbered = messages.size();
  if (n_known + 2 >= messages.size()) return;  // the answer and its question are all that is new
  transcript.renumber_replies(n_known, [this](std::string_view text, size_t first) -> std::optional<size_t> {
    for (size_t i = first; i < messages.size(); ++i) {
      if (is_reply(messages[i], text)) return i;
    }
    return std::nullopt;
  });
}

// The callback must not throw, because a turn that is committed cannot be taken back.
void ChatSession::State::finish_turn(const Turn& turn, const TurnCallback& on_event) noexcept {
  if (on_event) on_event({.kind = TurnEvent::Kind::kFinish, .turn = &turn});
  if (options.repair_when_idle && rewrites_history()) start_idle_work();
}

void ChatSession::State::take_back(BeforeTurn& before) noexcept {
  if (before.arranged) {
    // What was computed is exact, so the store keeps it for another attempt.
    register_entry(kv, foreign);
    foreign = before.arranged->foreign_before;
    search_store = true;
    if (before.arranged->before) {
      kv = *std::move(before.arranged->before);
    } else {
      kv.slice_to_length(before.arranged->length_before);
    }
  }
  rest_kv();
  if (before.delta) planner.given_up(*before.delta);
  if (before.full) {
    messages = std::move(before.full->messages);
    pinned = std::move(before.full->pinned);
    planner.messages_changed_from(before.full->first_changed);
  }
}

void ChatSession::State::forget_indexes() noexcept {
  drafter.forget_ids();
  n_indexed = 0;
  history = TokenHistory();
  n_counted = 0;
}

void ChatSession::State::index_prompt(const PromptDelta& delta, Turn& turn) {
  const Stopwatch watch(engine->clock(), turn.timings.match_ms);
  // Should the turn fail, this is what is still true.
  n_indexed = std::min(n_indexed, delta.n_keep);
  const Tokens ids = prompt_ids(delta, n_indexed);
  drafter.truncate(n_indexed);
  drafter.append(ids);
  turn.work.tokens_indexed += ids.size();
}

void ChatSession::State::count_prompt(const PromptDelta& delta, Sampler& sampler) {
  // Should the turn fail, this is what is still true.
  n_counted = std::min({n_counted, delta.n_keep, history.size()});
  history.truncate(n_counted);
  history.append(prompt_ids(delta, n_counted));
  sampler.begin_answer(std::exchange(history, TokenHistory()));
}

void ChatSession::State::commit(PromptDelta& delta, Generation generation, bool indexed, bool counted, Turn& turn) {
  // Everything that needs memory comes first, before anything changes.
  SampledReply reply;
  const size_t n_bytes = generation.text_ends.empty() ? 0 : generation.text_ends.back();
  reply.text = generation.text.substr(0, n_bytes);
  reply.ids = std::move(generation.ids);
  reply.text_ends = std::move(generation.text_ends);
  if (generation.end_of_turn) {
    reply.end_of_turn = generation.end_of_turn;
    reply.end_of_turn_text = engine->tokenizer().token_bytes(*generation.end_of_turn);
  }
  planner.append_reply(delta, std::move(reply), messages.size());
  transcript.prepare(delta.patch);
  messages.push_back(text_message("assistant", std::move(generation.text)));  // all or nothing

  prompt_end = {delta.n_prompt, std::move(generation.prompt_logits)};
  settle(delta, indexed, counted, turn);
}

// The second half of commit(): moves and cuts, which cannot fail, over room that was made before.
void ChatSession::State::settle(PromptDelta& delta, bool indexed, bool counted, Turn& turn) noexcept {
  transcript.apply(std::move(delta.patch));
  ahead.reset();
  alternatives.clear();
  planner.applied(delta);
  if (indexed) turn.work.tokens_indexed += turn.usage.n_decoded;
  n_indexed = std::min(indexed ? drafter.size() : std::min(n_indexed, delta.n_keep), transcript.ids().size());
  n_counted = std::min(counted ? history.size() : std::min(n_counted, delta.n_keep), transcript.ids().size());
  // If a stop string ended the reply, tokens beyond the cut have been fed; their rows go.
  const size_t n_prompt = std::min(delta.n_prompt, kv.length());
  const TokenSpan ids = transcript.ids();
  kv.slice_to_length(n_prompt + common_prefix_length(kv.tokens().subspan(n_prompt), ids.subspan(n_prompt)));
  n_read = kv.length();
  const Stopwatch watch(engine->clock(), turn.timings.match_ms);
  register_entry(kv, foreign, Extent::kAll, &at_rest);
  rewound = false;
  search_store = false;
}

void ChatSession::State::finish_timings(Turn& turn, int64_t start_ns) const {
  Timings& t = turn.timings;
  t.total_ms = milliseconds_since(engine->clock(), start_ns);
  t.prefill_tps = per_second(turn.usage.n_prefilled, t.prefill_ms);
  t.decode_tps = per_second(turn.usage.n_decoded - 1, t.decode_ms + t.sample_ms);
}

}  // namespace ibid
