#include "bench/lab/model_work.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "cache/pages/kv_cache_entry.h"
#include "model/weights/kv_precision.h"
#include "model/weights/load_weights.h"

namespace ibid {

size_t ModelWork::kv_bytes_at(size_t position) const {
  size_t bytes = 0;
  for (const LayerConfig& layer : layers) {
    if (!layer.attends) continue;
    bytes += kv_bytes_per_position * (layer.window == 0 ? position : std::min(position, layer.window));
  }
  return bytes;
}

Result<ModelWork> model_work(const ModelFile& file, const ModelConfig& config, const ModelOptions& options) {
  TRY_ASSIGN(const WeightPlan plan, plan_weights(file, config, options.numerics));

  ModelWork work;
  work.weights_bytes = plan.bytes - plan.lookup_bytes;
  // The layout counts only layers with keys and values of their own; other layers read the keys and values of an
  // earlier layer.
  TRY_ASSIGN(const KvLayout layout, kv_layout_of(file, config, options));
  size_t products = 0, kv_page_bytes = 0, n_attending = 0;
  for (size_t l = 0; l < config.n_layers; ++l) {
    if (!config.layers[l].attends) continue;
    ++n_attending;
    const size_t value_dim = config.latent.used() ? config.latent.row_value_dim() : config.layers[l].head_dim;
    products += config.n_heads * (config.layers[l].head_dim + value_dim);
    kv_page_bytes += layout.layer(config.layers[l].kv_layer).bytes();
  }
  work.kv_bytes_per_position = kv_page_bytes / kPagePositions / std::max(n_attending, size_t{1});
  work.layers = config.layers;
  work.operations_of_head = 2.0 * static_cast<double>(config.vocab_size) * static_cast<double>(config.dim);
  work.attention_operations_per_position = 2.0 * static_cast<double>(products);
  work.operations_per_token = 2.0 * static_cast<double>(plan.layer_weights);
  work.int8 = plan.quantized.h || plan.quantized.attended || plan.quantized.gated;
  return work;
}

namespace {

constexpr size_t kPrefillTokens = 64;
constexpr size_t kDecodeTokens = 8;
constexpr int kPacePasses = 2;  // the first pass is a warm-up
// Attention multiplies floats, at about half the rate of the linear layers' int8.
constexpr double kFloatsToInt8 = 2;
constexpr double kPeaksSeconds = 0.1;  // time that each figure takes to measure the machine's peaks

double seconds_since(int64_t start) { return 1e-3 * milliseconds_since(system_clock(), start); }

// Returns the seconds that `tokens` tokens take in passes of `chunk` tokens, appended to `entry`.
Result<double> timed_passes(LanguageModel& model, KvCacheEntry& entry, size_t tokens, size_t chunk) {
  const Tokens ids(chunk, TokenId{1});
  Logits logits;
  const int64_t start = system_clock().steady_ns();
  for (size_t done = 0; done < tokens; done += chunk) {
    const SequenceChunk part{&entry, ids, WantLogits::kLast};
    TRY(model.forward(std::span(&part, 1), {}, logits));
  }
  return seconds_since(start);
}

// Returns the total time of at least `rounds` samples and one warm-up; short samples are repeated up to
// kLeastSampledSeconds in total.
double sampled_s(size_t rounds, double one_s) {
  const double n = std::clamp(kLeastSampledSeconds / std::max(one_s, 1e-9), static_cast<double>(rounds),
                              static_cast<double>(std::max(rounds, kMostSamples)));
  return (n + 1) * one_s + kPeaksSeconds;
}

double conversation_s(const PlannedRun& run, const ModelPace& pace) {
  double sum = pace.prefill_s(kConversationMessage, 0) + pace.decode_s(kConversationAnswer, 0);
  size_t history = kConversationStart;
  for (size_t turn = 0; turn < kConversationTurns; ++turn, history += kConversationStep) {
    if (history + kConversationStep > run.context) break;
    sum += pace.prefill_s(kConversationMessage, history) + pace.decode_s(kConversationAnswer, history);
    sum += pace.prefill_s(history + kConversationMessage, 0);  // prefill of the same prompt without any cache
  }
  return sum;
}

// A history is prefilled twice at first, and once more in every round; a round also has four turns after the history.
double history_s(const PlannedRun& run, const ModelPace& pace, size_t history) {
  const double turn = pace.prefill_s(kConversationMessage, history) + pace.decode_s(kCurveAnswer, history);
  const double read = pace.prefill_s(history, 0);
  return 2 * read + 2 * turn + static_cast<double>(run.rounds) * (read + 4 * turn);
}

}  // namespace

double ModelPace::prefill_s(size_t n, size_t behind) const {
  const double middle = static_cast<double>(behind) + static_cast<double>(n) / 2;
  return static_cast<double>(n) * prefill_token_s * (1 + prefill_per_position * middle);
}

double ModelPace::decode_s(size_t n, size_t behind) const {
  const double middle = static_cast<double>(behind) + static_cast<double>(n) / 2;
  return static_cast<double>(n) * decode_token_s * (1 + decode_per_position * middle);
}

Result<ModelPace> measure_pace(LanguageModel& model, const ModelWork& work) {
  const size_t n = std::min({kPrefillTokens, model.max_chunk(), model.max_seq_len() / 2});
  KvPagePool pool(model.kv_layout(), model.kv_layout().room_for(n + kDecodeTokens));
  ModelPace pace;
  for (int pass = 0; pass < kPacePasses; ++pass) {
    KvCacheEntry entry(pool);
    TRY_ASSIGN(const double prefill_s, timed_passes(model, entry, n, n));
    TRY_ASSIGN(const double decode_s, timed_passes(model, entry, std::min(kDecodeTokens, n), 1));
    pace.prefill_token_s = prefill_s / static_cast<double>(n);
    pace.decode_token_s = decode_s / static_cast<double>(std::min(kDecodeTokens, n));
  }
  const double floats = work.int8 ? kFloatsToInt8 : 1;
  pace.prefill_per_position = floats * work.attention_operations_per_position / work.operations_per_token;
  pace.decode_per_position = static_cast<double>(work.kv_bytes_at(1)) / static_cast<double>(work.weights_bytes);
  return pace;
}

double estimated_seconds(const PlannedRun& run, const ModelPace& pace) {
  double sum = 0;
  for (const size_t n : run.prefills) sum += sampled_s(run.rounds, pace.prefill_s(n, 0));
  for (const size_t depth : run.decodes) {
    sum += pace.prefill_s(depth, 0) + sampled_s(run.rounds, pace.decode_s(kRateDecodeTokens + 1, depth));
  }
  for (const size_t depth : run.turns) sum += sampled_s(run.rounds, pace.prefill_s(kRateTurnTokens, depth));
  for (const size_t n : run.system_lengths) {
    const size_t whole = kChatTurns * kChatTurnTokens;
    sum += pace.prefill_s(n + whole, 0) + pace.decode_s(kChatTurns * kChatReplyTokens, n + whole / 2);
  }
  sum += static_cast<double>(run.conversations) * conversation_s(run, pace);
  for (const size_t history : run.histories) sum += history_s(run, pace, history);
  return sum;
}

std::string duration_in_words(double seconds) {
  const auto about = [](double n, const char* unit) {
    return "about " + std::to_string(std::lround(n)) + " " + unit + (std::lround(n) == 1 ? "" : "s");
  };
  if (seconds < 10) return "a few seconds";
  if (seconds < 55) return about(5 * std::round(seconds / 5), "second");
  if (seconds < 90 * 60) return about(seconds / 60, "minute");
  return about(seconds / 3600, "hour");
}

}  // namespace ibid
