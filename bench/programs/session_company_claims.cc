// Concurrent sessions: prefill while another session decodes, cancellation, eight decoding sessions.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bench/lab/chat_turns.h"
#include "bench/lab/figure.h"
#include "bench/programs/session_claims.h"
#include "cache/store/lru_kv_cache_store.h"
#include "runtime/session/session_state.h"

namespace ibid {
namespace {

constexpr size_t kPromptTokens = 4000;
constexpr size_t kStepsAlone = 40;  // decode steps before and after another session is active
constexpr size_t kTogether = 8, kTogetherTokens = 128;

// A session that decodes on its own thread until it is stopped, and the times of its tokens.
class Decoder {
 public:
  Decoder(std::shared_ptr<Engine> engine, size_t seed, size_t n_tokens) : engine_(std::move(engine)) {
    thread_ = std::jthread([this, seed, n_tokens](const std::stop_token& stop) { run(seed, n_tokens, stop); });
  }

  // Waits until the session has emitted n more tokens, or has ended.
  void wait_for_tokens(size_t n) {
    std::unique_lock lock(mutex_);
    const size_t wanted = times_ns_.size() + n;
    said_.wait(lock, [&] { return times_ns_.size() >= wanted || ended_; });
  }
  // Stops the turn, and returns the milliseconds until it ended.
  double stop() {
    const int64_t start = engine_->state().clock().steady_ns();
    thread_.request_stop();
    thread_.join();
    return milliseconds_since(engine_->state().clock(), start);
  }
  void join() { thread_.join(); }
  // REQUIRES: stop() was called, or the thread was joined.
  const Status& status() const { return status_; }
  const std::vector<int64_t>& times_ns() const { return times_ns_; }

  // Returns the milliseconds between consecutive tokens, the later of which is in [from, to]. REQUIRES: stop() was
  // called, or the thread was joined.
  std::vector<double> gaps_ms(int64_t from_ns, int64_t to_ns) const {
    std::vector<double> gaps;
    for (size_t i = 1; i < times_ns_.size(); ++i) {
      if (times_ns_[i] < from_ns || times_ns_[i] > to_ns) continue;
      gaps.push_back(static_cast<double>(times_ns_[i] - times_ns_[i - 1]) * 1e-6);
    }
    return gaps;
  }

 private:
  void run(size_t seed, size_t n_tokens, const std::stop_token& stop) {
    const auto turn = [&]() -> Status {
      TRY_ASSIGN(ChatSession session, ChatSession::create(engine_, {.repair_when_idle = false}));
      TurnOptions options = greedy_reply(n_tokens);
      options.stop = stop;
      const std::string text = text_of_tokens(engine_->state().tokenizer(), "Tell me of", 24, seed);
      return session
          .send(text, options,
                [this](const TurnEvent& event) {
                  if (event.kind != TurnEvent::Kind::kText) return;
                  const std::lock_guard lock(mutex_);
                  times_ns_.push_back(engine_->state().clock().steady_ns());
                  said_.notify_all();
                })
          .status();
    };
    Status status = turn();
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    ended_ = true;
    said_.notify_all();
  }

  const std::shared_ptr<Engine> engine_;
  std::mutex mutex_;
  std::condition_variable said_;
  std::vector<int64_t> times_ns_;
  bool ended_ = false;
  Status status_;
  std::jthread thread_;  // declared last, because the thread uses all other members
};

struct Reading {
  double ttft_ms = 0;
  size_t n_tokens = 0;
  double tps() const { return 1e3 * static_cast<double>(n_tokens) / ttft_ms; }
};

std::string long_text(const Engine& engine, size_t seed) {
  return text_of_tokens(engine.state().tokenizer(), "", kPromptTokens, seed);
}

// Prefills an uncached text and decodes its first token.
Result<Reading> read_prompt(const std::shared_ptr<Engine>& engine, const std::string& text) {
  engine->state().store().clear("");
  TRY_ASSIGN(ChatSession session, ChatSession::create(engine, {.repair_when_idle = false}));
  TRY_ASSIGN(const Turn turn, session.send(text, greedy_reply(1)));
  return Reading{turn.timings.ttft_ms, turn.usage.n_prefilled};
}

double percentile(std::vector<double> samples, double fraction) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<size_t>(fraction * static_cast<double>(samples.size() - 1) + 0.5)];
}

Status claims_of_reading_beside_decoding(const std::shared_ptr<Engine>& engine, size_t rounds, const ClaimSink& sink) {
  const double target_ms = SchedulerOptions{}.latency_target_ms;
  TRY(read_prompt(engine, long_text(*engine, 0)).status());  // warm-up
  std::vector<double> gaps, steps, ratios, alone_tps, beside_tps;
  for (size_t round = 1; round <= rounds; ++round) {
    const std::string first = long_text(*engine, 2 * round), second = long_text(*engine, 2 * round + 1);
    TRY_ASSIGN(const Reading alone, read_prompt(engine, first));
    Decoder decoder(engine, round, kPromptTokens);
    decoder.wait_for_tokens(2 * kStepsAlone);
    const int64_t begin = engine->state().clock().steady_ns();
    const Result<Reading> beside = read_prompt(engine, second);
    const int64_t end = engine->state().clock().steady_ns();
    decoder.wait_for_tokens(kStepsAlone);
    decoder.stop();
    TRY(decoder.status());
    TRY(beside.status());
    const std::vector<double> now = decoder.gaps_ms(begin, end);
    gaps.insert(gaps.end(), now.begin(), now.end());
    const std::vector<double> after = decoder.gaps_ms(end, INT64_MAX);
    steps.insert(steps.end(), after.begin(), after.end());
    ratios.push_back(beside->tps() / alone.tps());
    alone_tps.push_back(alone.tps());
    beside_tps.push_back(beside->tps());
  }
  if (gaps.empty() || steps.empty()) return {ErrorCode::kInvalidArgument, "the decoding session generated nothing"};
  const double step_ms = spread_of(steps).median, longest = percentile(gaps, 1);
  Claim gap;
  gap.what = text_of("a session decodes while %zu tokens are read: longest gap", kPromptTokens);
  gap.goal = text_of("target %.0f ms + a step of %.1f ms", target_ms, step_ms);
  gap.measured = text_of("median %.1f, p95 %.1f, longest %.1f ms of %zu gaps", percentile(gaps, 0.5),
                         percentile(gaps, 0.95), longest, gaps.size());
  gap.holds = longest <= target_ms + step_ms;
  gap.values = {{"median_ms", percentile(gaps, 0.5)},
                {"p95_ms", percentile(gaps, 0.95)},
                {"longest_ms", longest},
                {"step_ms", step_ms},
                {"target_ms", target_ms},
                {"gaps", gaps.size()}};
  sink(gap);
  const double ratio = spread_of(ratios).median;
  Claim rate;
  rate.what = "  prefill rate, relative to the same alone";
  rate.goal = "70 %";
  rate.measured = text_of("%.0f of %.0f tokens/s: %.0f %% (%zu rounds)", spread_of(beside_tps).median,
                          spread_of(alone_tps).median, 100 * ratio, rounds);
  rate.holds = ratio >= 0.7;
  rate.values = {
      {"alone_tps", spread_of(alone_tps).median}, {"beside_tps", spread_of(beside_tps).median}, {"ratio", ratio}};
  sink(rate);
  return {};
}

// Returns the milliseconds from the cancellation of a turn that is prefilling to its return.
Result<double> cancel_reading(const std::shared_ptr<Engine>& engine, size_t seed) {
  engine->state().store().clear("");
  const std::string text = long_text(*engine, seed);
  TRY_ASSIGN(ChatSession session, ChatSession::create(engine, {.repair_when_idle = false}));
  int64_t stopped_ns = 0;
  Status status;
  std::stop_source source;
  std::jthread reader([&] {
    TurnOptions options = greedy_reply(1);
    options.stop = source.get_token();
    status = session.send(text, options).status();
    stopped_ns = engine->state().clock().steady_ns();
  });
  // Cancel in the first half of the prompt, at a different position each time.
  std::this_thread::sleep_for(std::chrono::milliseconds(300 + 37 * (seed % 16)));
  const int64_t wished_ns = engine->state().clock().steady_ns();
  source.request_stop();
  reader.join();
  if (status.ok()) return Status(ErrorCode::kInvalidArgument, "the prompt was prefilled before it could be cancelled");
  if (status.code() != ErrorCode::kCancelled) return status;
  return static_cast<double>(stopped_ns - wished_ns) * 1e-6;
}

Claim cancel_claim(const char* what, const std::vector<double>& ms, double goal_ms) {
  Claim claim;
  claim.what = what;
  claim.measured = text_of("median %.2f, longest %.2f ms of %zu", percentile(ms, 0.5), percentile(ms, 1), ms.size());
  claim.values = {{"median_ms", percentile(ms, 0.5)}, {"longest_ms", percentile(ms, 1)}};
  if (goal_ms == 0) return claim;
  claim.goal = text_of("at most %.1f ms", goal_ms);
  claim.holds = percentile(ms, 1) <= goal_ms;
  return claim;
}

Status claims_of_cancelling(const std::shared_ptr<Engine>& engine, size_t rounds, const ClaimSink& sink) {
  std::vector<double> alone, beside, decoding, steps;
  for (size_t round = 0; round < 3 * rounds; ++round) {
    TRY_ASSIGN(const double alone_ms, cancel_reading(engine, 2 * round + 1));
    alone.push_back(alone_ms);
    Decoder decoder(engine, round, kPromptTokens);
    decoder.wait_for_tokens(kStepsAlone);
    const int64_t now = engine->state().clock().steady_ns();
    const Result<double> beside_ms = cancel_reading(engine, 2 * round + 2);
    decoder.wait_for_tokens(4);
    decoding.push_back(decoder.stop());
    TRY(decoder.status());
    TRY(beside_ms.status());
    beside.push_back(*beside_ms);
    const std::vector<double> gaps = decoder.gaps_ms(0, now);
    steps.insert(steps.end(), gaps.begin(), gaps.end());
  }
  const double pass_ms = SchedulerOptions{}.latency_target_ms + spread_of(steps).median;
  sink(cancel_claim("a prefill cancelled alone (a layer)", alone, 0));
  sink(cancel_claim("  beside a session that decodes (a pass)", beside, pass_ms));
  sink(cancel_claim("cancelling a decode, no other session running", decoding, 0));
  return {};
}

// Returns the tokens per second of n sessions that decode at once, over the time in which all of them do.
Result<double> decode_together(const std::shared_ptr<Engine>& engine, size_t n, size_t seed) {
  engine->state().store().clear("");
  std::vector<std::unique_ptr<Decoder>> decoders;
  for (size_t i = 0; i < n; ++i) decoders.push_back(std::make_unique<Decoder>(engine, seed + i, kTogetherTokens));
  for (const auto& decoder : decoders) decoder->join();
  int64_t from_ns = 0, to_ns = INT64_MAX;
  for (const auto& decoder : decoders) {
    TRY(decoder->status());
    if (decoder->times_ns().empty()) return Status(ErrorCode::kInvalidArgument, "a decoding session generated nothing");
    from_ns = std::max(from_ns, decoder->times_ns().front());
    to_ns = std::min(to_ns, decoder->times_ns().back());
  }
  size_t n_tokens = 0;
  for (const auto& decoder : decoders) n_tokens += decoder->gaps_ms(from_ns + 1, to_ns).size();
  return 1e9 * static_cast<double>(n_tokens) / static_cast<double>(to_ns - from_ns);
}

Status claims_of_decoding_together(const std::shared_ptr<Engine>& engine, size_t rounds, const ClaimSink& sink) {
  std::vector<double> one, all, ratios;
  for (size_t round = 0; round <= rounds; ++round) {
    TRY_ASSIGN(const double one_tps, decode_together(engine, 1, round));
    TRY_ASSIGN(const double all_tps, decode_together(engine, kTogether, round));
    if (round == 0) continue;  // this round is a warm-up
    one.push_back(one_tps);
    all.push_back(all_tps);
    ratios.push_back(all_tps / one_tps);
  }
  const Spread ratio = spread_of(ratios);
  Claim claim;
  claim.what = text_of("%zu sessions decode together, to one", kTogether);
  claim.measured = text_of("%.0f tokens/s, one %.0f: %.2f times (%.2f to %.2f)", spread_of(all).median,
                           spread_of(one).median, ratio.median, ratio.q1, ratio.q3);
  claim.values = {{"sessions", kTogether},
                  {"tps", spread_of(all).median},
                  {"one_tps", spread_of(one).median},
                  {"ratio", ratio.median}};
  sink(claim);
  return {};
}

}  // namespace

Status claims_of_company(const LoadEngine& load, size_t rounds, const ClaimSink& sink) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, load(""));
  TRY(claims_of_reading_beside_decoding(engine, rounds, sink));
  TRY(claims_of_cancelling(engine, rounds, sink));
  return claims_of_decoding_together(engine, rounds, sink);
}

}  // namespace ibid
