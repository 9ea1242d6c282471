#include "runtime/session_state.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "cache/lru_kv_cache_store.h"
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

size_t pages_from(size_t first_position, size_t end_position) {
  return KvLayout::pages_for(end_position) - first_position / kPagePositions;
}

}  // namespace

ChatSession::State::State(std::shared_ptr<Engine> e, SessionOptions o)
    : engine(std::move(e)), options(std::move(o)), planner(make_planner()), kv(engine->pool()) {
  begin();
}

ChatSession::State::State(const State& other)
    : engine(other.engine),
      options(other.options),
      messages(other.messages),
      transcript(other.transcript),
      planner(other.planner),
      kv(other.kv.fork()),
      drafter(other.drafter),
      n_indexed(other.n_indexed),
      usage(other.usage),
      timings(other.timings),
      rewound(other.rewound),
      search_store(other.search_store) {}

PromptPlanner ChatSession::State::make_planner() const {
  TemplateVariables variables;
  variables.values = engine->chat_template()->default_variables();
  variables.values.update(options.variables);
  variables.now = options.now;
  return PromptPlanner(engine->tokenizer(), *engine->chat_template(), std::move(variables), engine->clock());
}

void ChatSession::State::begin() {
  if (options.now.empty()) options.now = iso_time(engine->clock().unix_ns());
  messages = Json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  transcript = Transcript();
  planner = make_planner();
  kv = KvCacheEntry(engine->pool());
  drafter = Drafter();
  n_indexed = 0;
  usage = {};
  timings = {};
  rewound = false;
  search_store = true;
}

void ChatSession::State::cut_messages(size_t n) {
  CHECK_LE(n, messages.size());
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(n), messages.end());
  planner.messages_changed_from(n);
}

Result<Turn> ChatSession::State::run_turn(const TurnOptions& turn_options, const TurnCallback& on_event) {
  const int64_t start_ns = engine->clock().steady_ns();
  TRY_ASSIGN(Sampler sampler, Sampler::create(turn_options.sampler));
  TRY_ASSIGN(StopDetector stops, StopDetector::create(turn_options.stop_strings));
  Turn turn;
  TRY_ASSIGN(const PromptDelta delta, planner.plan(messages, transcript, turn.work, turn.timings));
  if (delta.n_prompt > engine->max_seq_len()) {
    planner.given_up(delta);
    return {ErrorCode::kContextFull, "the conversation would have " + std::to_string(delta.n_prompt) +
                                         " tokens with this message, the context has room for " +
                                         std::to_string(engine->max_seq_len())};
  }
  if (!rewound && delta.n_keep < kv.length()) {
    turn.lost_prefix = explain_lost_prefix(delta, transcript, messages, kv.length());
  }
  KvBefore before = arrange_kv(delta, turn);
  const size_t copied_before = kv.pages_copied();

  GenerateRequest request;
  request.start_ns = start_ns;
  Result<Generation> generated =
      generate_answer(delta, turn_options, on_event, request, sampler, std::move(stops), turn);
  const bool discard = generated.ok() && generated->finish_reason == FinishReason::kCancelled &&
                       turn_options.stop_mode == StopMode::kDiscard;
  if (!generated.ok() || discard) {
    give_up(delta, std::move(before));
    if (!generated.ok()) return generated.status();
    return {ErrorCode::kCancelled, "cancelled, and the turn was discarded"};
  }
  turn.text = generated->text;
  turn.finish_reason = generated->finish_reason;
  turn.stop_string = generated->stop_string;
  turn.seed = sampler.seed();
  turn.usage.n_decoded = generated->n_sampled;
  turn.usage.n_drafted = generated->n_drafted;
  turn.usage.n_accepted = generated->n_accepted;
  turn.work.kv_bytes_copied += (kv.pages_copied() - copied_before) * kv.layout().page_bytes();
  turn.work.pages_touched += pages_from(turn.usage.n_cached, kv.length());
  commit(delta, *std::move(generated), turn_options.speculate, turn);
  finish_timings(turn, start_ns);
  usage += turn.usage;
  timings = turn.timings;
  if (on_event) on_event({.kind = TurnEvent::Kind::kFinish, .turn = &turn});
  return turn;
}

ChatSession::State::KvBefore ChatSession::State::arrange_kv(const PromptDelta& delta, Turn& turn) {
  const Stopwatch watch(engine->clock(), turn.timings.match_ms);
  KvBefore before{kv.length(), std::nullopt};
  // The last id is always fed: its logits choose the first token of the answer.
  const size_t n_most = delta.n_prompt - 1;
  const size_t n_keep = std::min({delta.n_keep, kv.length(), n_most});
  // While a conversation only grows nobody knows more of it than itself, and asking would cost its length.
  if ((search_store || n_keep < kv.length()) && n_keep < n_most) {
    Tokens ids = prompt_ids(delta, 0);
    ids.pop_back();
    PrefixHit hit = engine->store().find_longest_prefix(options.cache_namespace, ids);
    turn.work.tokens_compared += hit.length();
    if (hit.length() > n_keep) {
      turn.work.pages_touched += hit.entry.pages().size();
      before.entry = std::exchange(kv, std::move(hit.entry));
      return before;
    }
  }
  if (n_keep < kv.length()) {
    before.entry = kv.fork();
    turn.work.pages_touched += kv.pages().size();
    kv.slice_to_length(n_keep);
  }
  return before;
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

Result<Generation> ChatSession::State::generate_answer(const PromptDelta& delta, const TurnOptions& turn_options,
                                                       const TurnCallback& on_event, GenerateRequest& request,
                                                       Sampler& sampler, StopDetector stops, Turn& turn) {
  turn.usage.n_prompt = delta.n_prompt;
  turn.usage.n_cached = kv.length();
  turn.usage.n_prefilled = delta.n_prompt - kv.length();
  const Tokens fed = prompt_ids(delta, kv.length());
  request.prefill = fed;
  request.max_tokens = turn_options.max_tokens == 0 ? SIZE_MAX : turn_options.max_tokens;
  request.stop_ids = engine->tokenizer().end_of_turn();
  request.min_tokens = turn_options.min_tokens;
  request.stop = turn_options.stop;
  if (turn_options.speculate) {
    index_prompt(delta, turn);
    request.drafter = &drafter;
  }
  if (on_event) {
    request.on_prefill = [&](size_t n_done, size_t) {
      on_event({.kind = TurnEvent::Kind::kPrefill,
                .n_done = turn.usage.n_cached + n_done,
                .n_total = turn.usage.n_prompt});
    };
    request.on_text = [&](std::string_view text) { on_event({.kind = TurnEvent::Kind::kText, .text = text}); };
  }
  return generate(engine->queue(), engine->tokenizer(), kv, request, sampler, std::move(stops), engine->clock(),
                  turn.timings, turn.work);
}

void ChatSession::State::give_up(const PromptDelta& delta, KvBefore before) {
  // What was computed is exact: the store keeps it, for when the same is tried again.
  register_kv();
  search_store = true;
  if (before.entry) {
    kv = *std::move(before.entry);
  } else {
    kv.slice_to_length(before.length);
  }
  planner.given_up(delta);
}

// A store that has no room is no reason to fail: its entries are a chance, not a promise.
void ChatSession::State::register_kv() {
  if (kv.length() == 0) return;
  const Status status = engine->store().insert(options.cache_namespace, kv);
  CHECK(status.ok() || status.code() == ErrorCode::kOutOfMemory) << status.message();
}

Tokens ChatSession::State::prompt_ids(const PromptDelta& delta, size_t begin) const {
  const TranscriptPatch& patch = delta.patch;
  Tokens out;
  if (begin < patch.keep_ids) {
    const auto ids = transcript.ids().begin();
    out.assign(ids + static_cast<std::ptrdiff_t>(begin), ids + static_cast<std::ptrdiff_t>(patch.keep_ids));
  }
  const size_t skip = std::max(begin, patch.keep_ids) - patch.keep_ids;
  out.insert(out.end(), patch.ids.begin() + static_cast<std::ptrdiff_t>(skip), patch.ids.end());
  return out;
}

void ChatSession::State::commit(const PromptDelta& delta, Generation generation, bool indexed, Turn& turn) {
  transcript.apply(delta.patch);
  SampledReply reply;
  const size_t n_bytes = generation.text_ends.empty() ? 0 : generation.text_ends.back();
  reply.text = generation.text.substr(0, n_bytes);
  reply.ids = std::move(generation.ids);
  reply.text_ends = std::move(generation.text_ends);
  if (generation.end_of_turn) {
    reply.end_of_turn = generation.end_of_turn;
    reply.end_of_turn_text = engine->tokenizer().token_bytes(*generation.end_of_turn);
  }
  transcript.append_reply(reply, messages.size(), *delta.end);
  planner.applied(delta);
  messages.push_back({{"role", "assistant"}, {"content", std::move(generation.text)}});
  if (indexed) turn.work.tokens_indexed += turn.usage.n_decoded;
  n_indexed = std::min(indexed ? drafter.size() : std::min(n_indexed, delta.n_keep), transcript.ids().size());
  // Of a reply that a stop string ended, tokens beyond the cut have been fed.
  kv.slice_to_length(std::min(kv.length(), transcript.ids().size()));
  const Stopwatch watch(engine->clock(), turn.timings.match_ms);
  register_kv();
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
