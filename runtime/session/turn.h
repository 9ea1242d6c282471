// The options of a turn, its events while it runs, and its result. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/answer/finish_reason.h"
#include "runtime/engine/pass_plan.h"
#include "runtime/prompt/lost_prefix.h"
#include "runtime/stats.h"
#include "sampling/constraint.h"
#include "sampling/logprobs.h"
#include "sampling/sampler.h"

namespace ibid {

enum class StopMode {
  kKeepPartial,  // a cancelled answer is an answer: it stays in the history as far as it came
  kDiscard,      // a cancelled turn never happened: the call returns kCancelled
};

struct TurnOptions {
  SamplerOptions sampler = {};
  // Tokens whose text holds one of these are sampler.dry_breakers too, while DRY is on.
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::optional<size_t> n_logprobs = {};       // Turn::logprobs with the n likeliest, at most kMaxTopLogprobs
  std::shared_ptr<const TokenConstraint> constraint = {};  // what the answer may consist of; a prototype
  size_t max_tokens = 0;                       // 0: as many as the context has room for
  size_t min_tokens = 0;                       // the model cannot end its turn earlier: for measuring
  std::vector<std::string> stop_strings = {};  // not part of the answer
  // An answer that repeats itself (a span of ids at least RepetitionDetector::kTimes times in a row, kLeastIds ids
  // together: sampling/repetition.h) ends there, with kRepetition. It keeps its text, as at max_tokens.
  bool stop_repetition = false;
  bool speculate = true;                       // verify guesses from the conversation: the same answer, sooner
  Priority priority = Priority::kNormal;       // among the sessions of the engine
  std::stop_token stop = {};
  StopMode stop_mode = StopMode::kKeepPartial;
};

// What a full context took from the history (runtime/session/context_policy.h). All 0: nothing.
struct LeftOut {
  size_t n_messages = 0;  // whole messages that are gone
  size_t n_bytes = 0;     // of the newest message, cut out of its middle

  bool any() const { return n_messages > 0 || n_bytes > 0; }
};

struct Turn {
  std::string text;
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_string;                 // the one that was found
  uint64_t seed = 0;                       // gives the same answer again
  std::vector<TokenLogprobs> logprobs;     // of each id of the answer, when they were asked for
  Usage usage;
  Timings timings;
  WorkCounters work;
  std::optional<LostPrefix> lost_prefix;   // set when ids of the standing history had to be read again
  LeftOut left_out;
};

struct TurnEvent {
  enum class Kind { kLeftOut, kPrefill, kText, kFinish };
  Kind kind = Kind::kText;
  std::string_view text = {}; // kText: the next whole characters of the answer
  size_t n_done = 0;          // kPrefill: positions of the prompt that have keys and values, reused ones
  size_t n_total = 0;         //           included, and all of them
  const Turn* turn = nullptr; // kFinish: the turn, already committed; kLeftOut: its left_out is set
};
// Runs on the calling thread, while the engine goes on with the next pass. Must not throw.
using TurnCallback = std::function<void(const TurnEvent&)>;

}  // namespace ibid
