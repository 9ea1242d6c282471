// TurnCurveBench measures the points of a TurnCurve: at each history the turn in the session that holds it, the same
// turn read again, the same turn of a conversation resumed from disk, and the bare pass, in interleaved rounds.
//
// "Read again" loads the saved conversation (its text, and the ids of its answers) into an engine whose store was
// emptied. "Resumed" loads it into a new engine with the cache directory that an earlier engine wrote and closed;
// before that the system is asked to forget the files. Neither counts the loading of the model.
//
// Not thread-safe; nobody else may use the model meanwhile.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "bench/lab/scratch_directory.h"
#include "bench/lab/turn_curve.h"
#include "runtime/engine/engine.h"
#include "runtime/session/chat_session.h"

namespace ibid {

class TurnCurveBench {
 public:
  // Engines on one model, one at a time in use (bench/lab/shared_model.h), with a fingerprint; with a cache directory
  // unless it is empty.
  using EngineFactory = std::function<Result<std::shared_ptr<Engine>>(const std::string& cache_directory)>;

  // Positions that a conversation needs beyond its history: a message, its answer and what the template adds.
  static constexpr size_t kTurnPositions = 160;

  struct Options {
    size_t rounds = 5;
    size_t message_tokens = 48;
    bool forget_files = true;  // ask the system to, before a conversation is resumed
  };

  // Errors: the factory's; kIo.
  static Result<std::unique_ptr<TurnCurveBench>> create(EngineFactory factory, const Options& options);

  // A point at `history` tokens, or a few more. REQUIRES: history + kTurnPositions fit into the context.
  // Errors: those of ChatSession; kIo when the cache directory cannot be used.
  Result<TurnCurvePoint> measure(size_t history);

 private:
  struct Prepared;
  struct Sample;

  TurnCurveBench(EngineFactory factory, const Options& options, std::unique_ptr<ScratchDirectory> scratch,
                 std::shared_ptr<Engine> engine);
  std::string saved_path() const { return scratch_->file("conversation"); }
  std::string cache_path() const { return scratch_->file("cache"); }
  std::string question(size_t round) const;

  Result<Prepared> prepare(size_t history);
  Result<ChatSession> begin_conversation(std::shared_ptr<Engine> engine, size_t history) const;
  Status write_cache_directory(size_t history);
  Result<Sample> ask(ChatSession session, size_t round, double spent_ms) const;
  Result<Sample> warm_turn(const Prepared& prepared, size_t round) const;
  Result<Sample> loaded_turn(std::shared_ptr<Engine> engine, size_t round) const;
  Result<Sample> cold_turn(size_t round) const;
  Result<Sample> resumed_turn(size_t round) const;
  Result<double> pass_ms(const Prepared& prepared) const;

  const EngineFactory factory_;
  const Options options_;
  const std::unique_ptr<ScratchDirectory> scratch_;
  const std::shared_ptr<Engine> engine_;  // without a cache directory
};

}  // namespace ibid
