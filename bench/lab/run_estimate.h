// Estimates how long a run of the benchmark will take, before it begins: a few passes are timed, and the rest is
// counting. It is right to a third or so on a machine whose load stays as it is.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/lab/model_work.h"
#include "model/forward/language_model.h"

namespace ibid {

// What a run will do; what is not wanted is empty or 0.
struct PlannedRun {
  size_t rounds = 5;
  std::vector<size_t> prefills;        // lengths
  std::vector<size_t> decodes;         // depths
  std::vector<size_t> turns;           // depths
  std::vector<size_t> system_lengths;  // of eight short chat turns each
  size_t conversations = 0;
  std::vector<size_t> histories;       // of the report
  size_t context = 0;                  // a conversation ends there
};

// How fast this model runs here.
struct ModelPace {
  double prefill_token_s = 0;   // of a short prompt
  double decode_token_s = 0;    // behind few others
  // What one more position in front adds to a token, in parts of the times above.
  double prefill_per_position = 0;
  double decode_per_position = 0;

  double prefill_s(size_t n, size_t behind) const;
  double decode_s(size_t n, size_t behind) const;
};

// Times passes of 64 tokens and of one. Errors: those of LanguageModel::forward().
Result<ModelPace> measure_pace(LanguageModel& model, const ModelWork& work);

double estimated_seconds(const PlannedRun& run, const ModelPace& pace);

// "a few seconds", "about 40 seconds", "about 4 minutes", "about 2 hours".
std::string duration_in_words(double seconds);

}  // namespace ibid
