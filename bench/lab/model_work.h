// Bytes and operations per token of a model, computed from its file: the work that is divided by a measured time to get
// GB/s and GOP/s.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config/config.h"
#include "model/config/model_options.h"
#include "model/forward/language_model.h"
#include "weights/model_file.h"

namespace ibid {

// Numbers of tokens that RateBench (bench/lab/rates.h) decodes, and prefills as a turn.
inline constexpr size_t kRateDecodeTokens = 48;
inline constexpr size_t kRateTurnTokens = 44;
// Short prefills are repeated for this long in total, which averages out the noise of the clock and of other processes.
inline constexpr double kLeastSampledSeconds = 0.2;
inline constexpr size_t kMostSamples = 50;

// Short chat turns (bench/lab/chat_turns.h): tokens of the system message before them, and sizes of the turns.
inline constexpr size_t kSystemLengths[] = {0, 1000, 3500};
inline constexpr size_t kChatTurns = 8;
inline constexpr size_t kChatReplyTokens = 24;
inline constexpr size_t kChatTurnTokens = 80;  // maximum tokens of message and reply
// The turns of the growing conversation (bench/lab/chat_turns.h): their number, and their sizes in tokens.
inline constexpr size_t kConversationTurns = 10;
inline constexpr size_t kConversationMessage = 60;
inline constexpr size_t kConversationAnswer = 440;
inline constexpr size_t kConversationStep = kConversationMessage + kConversationAnswer;
// Tokens of the first exchange, which is not measured: the template's system message, a user message and its answer.
inline constexpr size_t kConversationStart = 2 * kConversationMessage + kConversationAnswer;

// Tokens of each answer that TurnCurveBench (bench/lab/turn_curve_bench.h) generates.
inline constexpr size_t kCurveAnswer = 16;

struct ModelWork {
  size_t weights_bytes = 0;          // packed weights that every pass reads: all except an untied embedding
  size_t kv_bytes_per_position = 0;  // bytes of keys and values in one layer, in the chosen type
  std::vector<LayerConfig> layers;
  double operations_per_token = 0;               // operations of linear layers, two per multiply-add; without attention
  double attention_operations_per_position = 0;  // operations of all layers for each position that the token attends to
  double operations_of_head = 0;                 // operations of the LM head for each row of which logits are computed
  bool int8 = false;                             // true if the operations are int8

  // Returns the bytes of keys and values that a token at `position` reads.
  size_t kv_bytes_at(size_t position) const;
};

// Computes the work from the model's file. Errors: those of plan_memory() and the tensor table.
Result<ModelWork> model_work(const ModelFile& file, const ModelConfig& config, const ModelOptions& options);

// The parts of a run; a part that is not run is empty or 0. estimated_seconds() extrapolates from a few timed passes
// (measure_pace()); it is off by about a third if the load of the machine does not change.
struct PlannedRun {
  size_t rounds = 5;
  std::vector<size_t> prefills;        // numbers of prefilled tokens
  std::vector<size_t> decodes;         // numbers of tokens before the decoded ones
  std::vector<size_t> turns;           // numbers of tokens before the turns
  std::vector<size_t> system_lengths;  // number of tokens of system messages, each followed by eight short chat turns
  size_t conversations = 0;
  std::vector<size_t> histories;  // lengths of the long histories after which turns are measured
  size_t context = 0;             // maximum length of a conversation
};

// Speed of the model on this machine.
struct ModelPace {
  double prefill_token_s = 0;  // time per token of a short prompt
  double decode_token_s = 0;   // time per token after a short history
  // Additional time for each position before a token, as a fraction of the times above.
  double prefill_per_position = 0;
  double decode_per_position = 0;

  double prefill_s(size_t n, size_t behind) const;
  double decode_s(size_t n, size_t behind) const;
};

// Times passes of 64 tokens and of one token. Errors: those of LanguageModel::forward().
Result<ModelPace> measure_pace(LanguageModel& model, const ModelWork& work);

double estimated_seconds(const PlannedRun& run, const ModelPace& pace);

// "a few seconds", "about 40 seconds", "about 4 minutes", "about 2 hours".
std::string duration_in_words(double seconds);

}  // namespace ibid
