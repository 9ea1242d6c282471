#include "bench/lab/rates.h"

#include <algorithm>
#include <chrono>

#include "bench/lab/model_work.h"

namespace ibid {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <typename Function>
Spread map_spread(std::vector<double> seconds, Function function) {
  for (double& s : seconds) s = function(s);
  return spread_of(std::move(seconds));
}

}  // namespace

size_t RateBench::positions_for_depth(size_t depth) { return depth + 1 + kRateDecodeTokens; }

Result<std::unique_ptr<RateBench>> RateBench::create(LanguageModel& model, ModelWork work, int n_threads, size_t rounds,
                                                     size_t most_positions) {
  TRY_ASSIGN(PeakMeter meter, PeakMeter::create(n_threads, work.weights_bytes + work.kv_bytes_at(most_positions)));
  return std::unique_ptr<RateBench>(new RateBench(model, std::move(work), std::move(meter), rounds, most_positions));
}

RateBench::RateBench(LanguageModel& model, ModelWork work, PeakMeter meter, size_t rounds, size_t most_positions)
    : model_(model),
      work_(std::move(work)),
      meter_(std::move(meter)),
      rounds_(rounds),
      pool_(model.kv_layout(), model.kv_layout().room_for(most_positions)),
      entry_(pool_) {}

Tokens RateBench::spread_ids(size_t n) const {
  Tokens ids(n);
  for (size_t i = 0; i < n; ++i) {
    ids[i] = static_cast<TokenId>((1000 + i * 7919 % 30000) % model_.vocab_size());
  }
  return ids;
}

Status RateBench::feed(TokenSpan ids) {
  while (!ids.empty()) {
    const size_t n = std::min(ids.size(), model_.max_chunk());
    const SequenceChunk chunk{&entry_, ids.first(n), n == ids.size() ? WantLogits::kLast : WantLogits::kNone};
    TRY(model_.forward(std::span(&chunk, 1), {}, logits_));
    ids = ids.subspan(n);
  }
  return {};
}

Status RateBench::prefill_to(size_t n) {
  // If there is no checkpoint at n, slicing leaves fewer positions. keep_only_here() makes a checkpoint at n for the
  // next call.
  const size_t n_left = entry_.slice_to_at_most(n);
  TRY(feed(TokenSpan(spread_ids(n)).subspan(n_left)));
  entry_.state().keep_only_here(n);
  return {};
}

Result<std::vector<double>> RateBench::sample(size_t depth, TokenSpan ids, bool one_by_one) {
  std::vector<double> samples;
  double sum = 0;
  for (size_t round = 0; round <= rounds_ || (sum < kLeastSampledSeconds && round <= kMostSamples); ++round) {
    TRY(prefill_to(depth));
    if (one_by_one) TRY(feed(Tokens{static_cast<TokenId>((1234 + round) % model_.vocab_size())}));
    const double start = now();
    const size_t step = one_by_one ? 1 : ids.size();
    for (size_t done = 0; done < ids.size(); done += step) TRY(feed(ids.subspan(done, step)));
    const double seconds = now() - start;
    if (round == 0) continue;  // this round is a warm-up
    samples.push_back(seconds);
    sum += seconds;
  }
  TRY(prefill_to(depth));
  return samples;
}

Throughput RateBench::operations_rate(size_t n_tokens, double seconds) {
  const double operations = work_.operations_per_token * static_cast<double>(n_tokens) + work_.operations_of_head;
  return {"gops", operations / seconds / 1e9, meter_.gops(work_.int8)};
}

Status RateBench::prefill(size_t n, const FigureSink& sink) {
  const Tokens ids = spread_ids(n);
  TRY_ASSIGN(const std::vector<double> seconds, sample(0, ids, false));
  Figure figure;
  figure.kind = find_figure_kind("prefill");
  figure.at = {n};
  figure.value = map_spread(seconds, [n](double s) { return static_cast<double>(n) / s; });
  figure.throughput = operations_rate(n, spread_of(seconds).median);
  sink(figure);
  return {};
}

Status RateBench::decode(size_t depth, const FigureSink& sink) {
  Tokens ids(kRateDecodeTokens);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>((2000 + 97 * i) % model_.vocab_size());
  TRY_ASSIGN(const std::vector<double> seconds, sample(depth, ids, true));
  Figure figure;
  figure.kind = find_figure_kind("decode");
  figure.at = {depth};
  figure.value = map_spread(seconds, [](double s) { return kRateDecodeTokens / s; });
  const size_t bytes = work_.weights_bytes + work_.kv_bytes_at(depth + kRateDecodeTokens / 2);
  figure.throughput = {"gbps", figure.value.median * static_cast<double>(bytes) / 1e9, meter_.read_gbps(bytes)};
  sink(figure);
  return {};
}

Status RateBench::turn(size_t history, const FigureSink& sink) {
  const Tokens ids = spread_ids(kRateTurnTokens);
  TRY_ASSIGN(const std::vector<double> seconds, sample(history, ids, false));
  Figure figure;
  figure.kind = find_figure_kind("turn");
  figure.at = {history, kRateTurnTokens};
  figure.value = map_spread(seconds, [](double s) { return 1e3 * s; });
  figure.throughput = operations_rate(kRateTurnTokens, spread_of(seconds).median);
  sink(figure);
  return {};
}

}  // namespace ibid
