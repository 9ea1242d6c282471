// RateBench: prefill and decode rates of one model without a conversation, with the same work as the programs that
// time other engines (bench/rivals): given tokens, up to the next token's logits.
//   prefill n        n new tokens in an empty sequence
//   decode depth     48 tokens one by one after `depth` others
//   turn history 44  44 new tokens at once after `history` others
// Reports the median of several repetitions after one warm-up. The engine's own parts of a turn (template, tokenizer,
// matching, sampling) are measured by bench/lab/chat_turns.h.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "bench/lab/figure.h"
#include "bench/lab/machine_peaks.h"
#include "bench/lab/model_work.h"
#include "cache/pages/kv_cache_entry.h"
#include "ibid/token.h"
#include "model/forward/language_model.h"

namespace ibid {

class RateBench {
 public:
  // Returns the number of positions that a figure at `depth` needs.
  static size_t positions_for_depth(size_t depth);

  // Creates a bench for sequences up to `most_positions`. `model` must outlive it. Errors: those of
  // PeakMeter::create().
  static Result<std::unique_ptr<RateBench>> create(LanguageModel& model, ModelWork work, int n_threads, size_t rounds,
                                                   size_t most_positions);
  RateBench(const RateBench&) = delete;
  RateBench& operator=(const RateBench&) = delete;

  // Errors of all functions: those of LanguageModel::forward(). REQUIRES: all positions fit into most_positions.
  Status prefill(size_t n, const FigureSink& sink);
  Status decode(size_t depth, const FigureSink& sink);
  Status turn(size_t history, const FigureSink& sink);

  // Bytes of memory that the bench itself uses for measuring peaks.
  size_t meter_bytes() const { return meter_.bytes(); }

 private:
  RateBench(LanguageModel& model, ModelWork work, PeakMeter meter, size_t rounds, size_t most_positions);

  // Returns the tokens that every engine gets: spread over the vocabulary, so that no engine profits from repetition.
  Tokens spread_ids(size_t n) const;
  // Makes entry_ hold `n` positions, those of spread_ids(n).
  Status prefill_to(size_t n);
  Status feed(TokenSpan ids);
  // Returns the seconds of prefilling `ids` after `depth` positions, all at once or one by one; at least rounds_
  // samples.
  Result<std::vector<double>> sample(size_t depth, TokenSpan ids, bool one_by_one);
  Throughput operations_rate(size_t n_tokens, double seconds);

  LanguageModel& model_;
  const ModelWork work_;
  PeakMeter meter_;
  const size_t rounds_;
  KvPagePool pool_;
  KvCacheEntry entry_;
  Logits logits_;
};

}  // namespace ibid
