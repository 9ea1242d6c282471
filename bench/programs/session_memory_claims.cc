// Reuse in sessions and its cost: long chats, a shared system message, resuming, the store.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/token_prefix.h"
#include "bench/lab/chat_turns.h"
#include "bench/lab/figure.h"
#include "bench/lab/turn_curve_bench.h"
#include "bench/programs/session_claims.h"
#include "cache/store/lru_kv_cache_store.h"
#include "runtime/session/session_state.h"

namespace ibid {
namespace {

constexpr size_t kLongTurns = 100, kLongTurnTokens = 81, kLongMessageTokens = 52;
constexpr size_t kTemplateTokens = 12;  // approximate number of tokens that the template adds around a message
constexpr size_t kCountedTurns = 200, kCountedMessageTokens = 12, kCountedReplyTokens = 8;
constexpr size_t kSystemTokens = 3000, kSystemSessions = 50;
constexpr size_t kResumedTokens = 4000;
constexpr size_t kLookups = 200;
constexpr double kMebibyte = 1 << 20;

Result<ChatSession> quiet_session(std::shared_ptr<Engine> engine, SessionOptions options = {}) {
  options.repair_when_idle = false;
  return ChatSession::create(std::move(engine), std::move(options));
}

Status claim_of_append_only(const LoadEngine& load, const ClaimSink& sink) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, load(""));
  TRY_ASSIGN(ChatSession session, quiet_session(engine));
  size_t n_committed = 0, n_reused = 0, most_again = 0, most_unreused = 0;
  for (size_t turn = 1; turn <= kLongTurns; ++turn) {
    const size_t n_tokens = session.ids().size(), n_held = session.state().kv().length();
    const std::string message = text_of_tokens(engine->state().tokenizer(), "", kLongMessageTokens, turn);
    const size_t n_asked = n_tokens + kLongMessageTokens + kTemplateTokens;
    const size_t n_reply = turn * kLongTurnTokens - std::min(n_asked, turn * kLongTurnTokens);
    TRY_ASSIGN(const Turn done, session.send(message, greedy_reply(std::clamp<size_t>(n_reply, 8, 64))));
    if (turn == 1) continue;
    n_committed += n_tokens;
    n_reused += done.usage.n_cached;
    most_again = std::max(most_again, saturating_sub(n_held, done.usage.n_cached));
    most_unreused = std::max(most_unreused, saturating_sub(n_tokens, done.usage.n_cached));
  }
  const size_t history = session.ids().size();
  Claim claim;
  claim.what = text_of("append-only chat, %zu turns, %zu tokens", kLongTurns, history);
  claim.goal = "recomputed: at most 1 a turn";
  claim.measured =
      text_of("%.3f %% reused; recomputed %zu, not held yet %zu, at most a turn",
              100.0 * static_cast<double>(n_reused) / static_cast<double>(n_committed), most_again, most_unreused);
  claim.holds = most_again <= 1 && most_unreused <= 1 && history >= 8000;
  claim.values = {{"turns", kLongTurns},           {"history", history},
                  {"n_committed", n_committed},    {"n_reused", n_reused},
                  {"most_recomputed", most_again}, {"most_not_held", most_unreused}};
  sink(claim);
  return {};
}

// Replies differ in bytes, and turns in the position of page ends. So the claim compares the means of the counters over
// a hundred turns each; a counter that grows with the history would be three times as large in the second hundred.
Status claim_of_counters(const LoadEngine& load, const ClaimSink& sink) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, load(""));
  TRY_ASSIGN(ChatSession session, quiet_session(engine));
  std::array<std::array<double, std::size(kWorkFields)>, 2> means{};
  for (size_t turn = 1; turn <= kCountedTurns; ++turn) {
    const std::string message = text_of_tokens(engine->state().tokenizer(), "", kCountedMessageTokens, turn);
    TRY_ASSIGN(const Turn done, session.send(message, greedy_reply(kCountedReplyTokens)));
    if (turn == 1) continue;  // the first turn searches the store, later turns do not
    const size_t half = turn > kCountedTurns / 2 ? 1 : 0;
    const size_t n_turns = half == 1 ? kCountedTurns / 2 : kCountedTurns / 2 - 1;
    for (size_t i = 0; i < std::size(kWorkFields); ++i) {
      means[half][i] += static_cast<double>(done.work.*kWorkFields[i].field) / static_cast<double>(n_turns);
    }
  }
  double largest = 0;
  const char* name = "none";
  Claim claim;
  for (size_t i = 0; i < std::size(kWorkFields); ++i) {
    claim.values[kWorkFields[i].name] = {means[0][i], means[1][i]};
    const double growth = means[0][i] > 0 ? means[1][i] / means[0][i] - 1 : means[1][i];
    if (growth > largest) largest = growth, name = kWorkFields[i].name;
  }
  claim.what =
      text_of("counters of %zu turns, %zu tokens: second hundred to first", kCountedTurns, session.ids().size());
  claim.goal = "no counter grows (5 %: replies vary)";
  claim.measured = text_of("largest growth %.2f %% (%s)", 100 * largest, name);
  claim.holds = largest <= 0.05;
  sink(claim);
  return {};
}

}  // namespace

Status claims_of_long_chats(const LoadEngine& load, const ClaimSink& sink) {
  TRY(claim_of_append_only(load, sink));
  return claim_of_counters(load, sink);
}

Status claims_of_shared_prompt(const LoadEngine& load, const ClaimSink& sink) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, load(""));
  const std::string system = text_of_tokens(engine->state().tokenizer(), "You answer briefly.", kSystemTokens, 1);
  std::vector<ChatSession> sessions;
  size_t n_again = 0, n_common = 0, n_prompts = 0, n_pages_apart = 0;
  for (size_t i = 0; i < kSystemSessions; ++i) {
    TRY_ASSIGN(ChatSession session, quiet_session(engine, {.system = system}));
    TRY_ASSIGN(const Turn turn, session.send(text_of_tokens(engine->state().tokenizer(), "", 12, i), greedy_reply(4)));
    n_prompts += turn.usage.n_prompt;
    n_pages_apart += KvLayout::pages_for(session.state().kv().length());
    sessions.push_back(std::move(session));
    if (i == 0) continue;
    // Two prompts may be equal. The tokens after them are answers, which are decoded, not prefilled, and must not
    // count.
    const size_t common = std::min(turn.usage.n_prompt, common_prefix_length(sessions[0].ids(), sessions[i].ids()));
    n_again += saturating_sub(common, turn.usage.n_cached);
    n_common = std::max(n_common, common);
  }
  Claim once;
  once.what = text_of("system message of %zu tokens, %zu new sessions", kSystemTokens, kSystemSessions);
  once.goal = "read once";
  once.measured = text_of("%zu of %zu tokens read more than once", n_again, (kSystemSessions - 1) * n_common);
  once.holds = n_again == 0;
  once.values = {
      {"sessions", kSystemSessions}, {"n_read_again", n_again}, {"n_common", n_common}, {"n_prompts", n_prompts}};
  sink(once);

  const size_t n_pages = engine->state().pool().pages_in_use();
  const size_t goal = KvLayout::pages_for(n_common) + 2 * kSystemSessions;
  const auto mebibytes = [&](size_t n) {
    return static_cast<double>(n * engine->state().pool().layout().page_bytes()) / kMebibyte;
  };
  Claim held;
  held.what = "  pool while all of them live";
  held.goal = text_of("once, and 2 pages each: %zu pages", goal);
  held.measured = text_of("%zu pages, %.1f MiB; not shared it were %zu, %.1f MiB", n_pages, mebibytes(n_pages),
                          n_pages_apart, mebibytes(n_pages_apart));
  held.holds = n_pages <= goal;
  held.values = {
      {"pages", n_pages}, {"bytes", engine->state().pool().bytes_in_use()}, {"pages_not_shared", n_pages_apart}};
  sink(held);
  return {};
}

Status claims_of_resuming(const LoadEngine& load, size_t rounds, const ClaimSink& sink) {
  for (const bool forget : {false, true}) {
    TRY_ASSIGN(const auto bench, TurnCurveBench::create(load, {.rounds = rounds, .forget_files = forget}));
    TRY_ASSIGN(const TurnCurvePoint point, bench->measure(kResumedTokens));
    const double to_warm = point.resumed_ms.median / point.warm_ms.median;
    const double to_cold = point.cold_ms.median / point.resumed_ms.median;
    const std::string what = text_of("resumed at %zu tokens, files %s", point.history,
                                     forget ? "read from the device" : "in the system's cache");
    Claim warm;
    warm.what = what + ": to the warm turn";
    warm.goal = "at most 2 times the warm turn";
    warm.measured = text_of("%.1f ms, warm %.1f: %.2f times; %zu read", point.resumed_ms.median, point.warm_ms.median,
                            to_warm, point.n_prefilled_resumed);
    warm.holds = to_warm <= 2;
    warm.values = {{"resumed_ms", point.resumed_ms.median}, {"warm_ms", point.warm_ms.median}, {"ratio", to_warm}};
    sink(warm);
    Claim cold;
    cold.what = "  to reading it again";
    cold.goal = "20 times as fast, same bits";
    cold.measured = text_of("%.0f ms: %.1f times; %s", point.cold_ms.median, to_cold,
                            point.same_text && point.same_bits ? "same text, same bits" : "OTHER ANSWER");
    cold.holds = to_cold >= 20 && point.same_text && point.same_bits;
    cold.values = {{"cold_ms", point.cold_ms.median}, {"ratio", to_cold}, {"same_bits", point.same_bits}};
    sink(cold);
  }
  return {};
}

namespace {

Status claims_of_hit(Engine& engine, TokenSpan ids, const ClaimSink& sink) {
  const size_t copied_before = engine.state().pool().bytes_copied();
  std::vector<double> us;
  size_t length = 0, copied_by_hit = 0, copied_by_write = 0;
  for (size_t i = 0; i < kLookups; ++i) {
    const int64_t start = engine.state().clock().steady_ns();
    PrefixHit hit = engine.state().store().find_longest_prefix("", ids);
    us.push_back(static_cast<double>(engine.state().clock().steady_ns() - start) * 1e-3);
    length = hit.length();
    if (i + 1 < kLookups) continue;
    copied_by_hit = engine.state().pool().bytes_copied() - copied_before;
    TRY(hit.entry.reserve(1));
    copied_by_write = engine.state().pool().bytes_copied() - copied_before - copied_by_hit;
  }
  const Spread spread = spread_of(std::move(us));
  Claim claim;
  claim.what = text_of("warm hit of %zu tokens in the store", length);
  claim.goal = "copies nothing, then at most a page";
  claim.measured = text_of("%.1f us (%.1f to %.1f); %zu B copied, %zu before the first write", spread.median, spread.q1,
                           spread.q3, copied_by_hit, copied_by_write);
  const size_t page_bytes = engine.state().pool().layout().page_bytes();
  claim.holds = length == ids.size() && copied_by_hit == 0 && copied_by_write <= page_bytes;
  claim.values = {{"us", spread.median},
                  {"length", length},
                  {"bytes_copied", copied_by_hit},
                  {"bytes_copied_before_write", copied_by_write}};
  sink(claim);
  return {};
}

}  // namespace

Status claims_of_memory(const LoadEngine& load, const ClaimSink& sink) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, load(""));
  TRY_ASSIGN(ChatSession session, quiet_session(engine));
  TRY(session.send(text_of_tokens(engine->state().tokenizer(), "", kResumedTokens, 1), greedy_reply(4)).status());
  TRY(claims_of_hit(*engine, session.state().kv().tokens().first(kResumedTokens), sink));

  const KvLayout& layout = engine->state().pool().layout();
  std::vector<KvRowShape> rows;
  for (const KvLayer& layer : layout.layers()) rows.push_back(layer.row);
  Claim claim;
  claim.what = "keys and values of a token";
  for (const auto& [name, dtype] :
       {std::pair("F32", KvDType::kF32), std::pair("F16", KvDType::kF16), std::pair("INT8", KvDType::kInt8),
        std::pair("K8V4", KvDType::kK8V4), std::pair("INT4", KvDType::kInt4)}) {
    const KvLayout same = KvLayout::make(rows, dtype);
    const size_t bytes = same.page_bytes() / kPagePositions;
    claim.measured += text_of("%s%s %zu B", claim.measured.empty() ? "" : ", ", name, bytes);
    claim.values[name] = bytes;
  }
  sink(claim);
  return {};
}

}  // namespace ibid
