// TurnCurveBench measures the points of a TurnCurve. At each history it measures the turn in the session that has the
// history, the same turn cold, the same turn of a conversation resumed from disk, and the bare pass, in interleaved
// rounds.
//
// "Cold" loads the saved conversation (its text, and the tokens of its answers) into an engine whose store was cleared.
// "Resumed" loads it into a new engine with the cache directory that an earlier engine wrote and closed, after dropping
// the files from the OS page cache. Neither time includes loading the model. Not thread-safe. REQUIRES: nothing else
// uses the model meanwhile.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "bench/lab/turn_curve.h"
#include "model/forward/language_model.h"
#include "runtime/engine/engine_state.h"
#include "runtime/session/session_state.h"

namespace ibid {

// ScratchDirectory: a directory for the files of a measurement, removed with its contents by the destructor.
class ScratchDirectory {
 public:
  // Creates a directory in the system's directory for temporary files ($TMPDIR), accessible only to its owner. Error:
  // kIo.
  static Result<std::unique_ptr<ScratchDirectory>> create();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Returns the path of `name` in this directory.
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Removes the contents of the directory.
  void empty() const;

  // Asks the OS to drop all files below this directory from the page cache, so that the next read is from the device.
  // Pages that are not yet written to the device, and files on memory file systems, stay.
  void forget_files() const;

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

// SharedModel: lets several engines use one loaded model, so that a restart can be measured without loading the model
// again. An engine owns its model, so this model is only a shared pointer to the loaded model.
//
// Not thread-safe: only one of the engines on a model may run passes at a time, because each has its own scheduler.
class SharedModel : public LanguageModel {
 public:
  explicit SharedModel(std::shared_ptr<LanguageModel> model) : model_(std::move(model)) {}

  size_t vocab_size() const override { return model_->vocab_size(); }
  size_t max_seq_len() const override { return model_->max_seq_len(); }
  size_t max_chunk() const override { return model_->max_chunk(); }
  const KvLayout& kv_layout() const override { return model_->kv_layout(); }
  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) override {
    return model_->forward(batch, std::move(stop), logits);
  }

 private:
  const std::shared_ptr<LanguageModel> model_;
};

class TurnCurveBench {
 public:
  // Creates engines with a fingerprint on one model (SharedModel); only one of them is in use at a time. Argument: the
  // cache directory; empty: none.
  using EngineFactory = std::function<Result<std::shared_ptr<Engine>>(const std::string& cache_directory)>;

  // Positions that a conversation needs after its history: a message, its answer and the template's tokens.
  static constexpr size_t kTurnPositions = 160;

  struct Options {
    size_t rounds = 5;
    size_t message_tokens = 48;
    bool forget_files = true;  // drop the files from the page cache before a conversation is resumed
  };

  // Creates the bench with an engine without cache directory. Errors: the factory's; kIo.
  static Result<std::unique_ptr<TurnCurveBench>> create(EngineFactory factory, const Options& options);

  // Measures a point at a history of `history` tokens, or a few more. REQUIRES: history + kTurnPositions fit into the
  // context. Errors: those of ChatSession; kIo if the cache directory cannot be used.
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
  Result<ChatSession> begin_conversation(const std::shared_ptr<Engine>& engine, size_t history) const;
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
  const std::shared_ptr<Engine> engine_;  // the engine without a cache directory
};

}  // namespace ibid
