// ScorePass: computes the log-probabilities of given tokens. It feeds them in pieces whose logits are reduced at once,
// so that at most kScoreRows rows of logits are in memory, and beside answers it takes a fifth of the time at most
// (runtime/scheduler/pass_plan.h).
//
// Scores are as exact as answers: they depend only on the model, the storage of keys and values, and the tokens,
// however they are split into passes. Keys and values stay in the store: an answer to the same tokens finds them there.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "ibid/score.h"
#include "ibid/token.h"
#include "ibid/waker.h"
#include "runtime/engine/engine_state.h"

namespace ibid {

class ScorePass {
 public:
  // Starts the pass. `engine` must outlive the object. Notifies `waker` when the scores are computed. Errors:
  // kUnsupported for an embedding model; kInvalidArgument for no tokens, a token outside the vocabulary, or n_top above
  // the maximum; kContextFull with needed and available tokens; kOutOfMemory; those of Scheduler::submit().
  static Result<std::unique_ptr<ScorePass>> begin(EngineState& engine, Tokens ids, ScoreOptions options,
                                                  std::shared_ptr<Waker> waker);
  // Cancels, and waits for the end.
  ~ScorePass();
  ScorePass(const ScorePass&) = delete;
  ScorePass& operator=(const ScorePass&) = delete;

  bool is_over() const;
  // Token counts of the pass, known at its start.
  const Usage& usage() const { return usage_; }
  // Returns the scores. REQUIRES: is_over(); called once. Errors: kCancelled, kOutOfMemory, and those of
  // LanguageModel::forward().
  Result<Scored> finish();

 private:
  class Scoring;
  ScorePass(EngineState& engine, Tokens ids, std::shared_ptr<Waker> waker);

  EngineState& engine_;
  const Tokens ids_;
  const std::shared_ptr<Waker> waker_;
  Usage usage_;
  std::unique_ptr<Scoring> scoring_;  // null: nothing to score
};

// Scores on the calling thread. Errors: those of begin() and finish(). May throw std::bad_alloc.
Result<Scored> score(EngineState& engine, Tokens ids, ScoreOptions options);

}  // namespace ibid
