// Engine: one loaded model and everything its conversations share: the tokenizer, the chat template, the keys and
// values that were computed and where they are found again.
//
// It computes on n_threads threads of its own, which are made in load(). Sessions make none.
//
// Thread-safe: any number of sessions on any threads, which share the passes of the model. Sessions hold a shared
// pointer, so an engine lives as long as the last of them. Whoever drops it last waits for its threads to end, and
// for at most a second until what waits is written to the cache directory. In a child of fork() every call of a
// session is kUnsupported, because the threads are the parent's: load the model after fork().
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/constraint.h"
#include "ibid/engine_options.h"
#include "ibid/result.h"
#include "ibid/token.h"

namespace ibid {

class EngineState;

class IBID_EXPORT Engine {
 public:
  // `path`: a .gguf file, or a directory with safetensors and config.json.
  // Errors: kInvalidArgument with name, value and range for an option that is out of range; kOutOfMemory; those of
  // files: each names the file and what is wrong with it.
  static Result<std::shared_ptr<Engine>> load(const std::string& path, const EngineOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The model, as messages name it: its path.
  const std::string& name() const;
  // The context, in positions.
  size_t max_seq_len() const;
  // Without a chat template sessions are kUnsupported.
  bool has_chat_template() const;

  // The largest id + 1.
  size_t vocab_size() const;
  // The ids of a text, in which nothing is a special token: what somebody typed. Error: kOutOfMemory.
  Result<Tokens> encode(std::string_view text) const;
  // The bytes that an id stands for, special tokens shown; empty for an id out of range. May be a part of a character.
  // The view lives as long as the engine.
  std::string_view token_bytes(TokenId id) const;

  // What an answer may consist of, for TurnOptions::constraint: JSON that a schema accepts, any JSON object, texts of a
  // grammar as llama.cpp writes it (GBNF), texts that match a regular expression as a whole, one of some texts. The
  // last few are kept, so asking for one again costs nothing. docs/structured_output.md says what there is.
  // Errors: kUnsupported (names the keyword or notation, and where it stands), kInvalidArgument, kLimitExceeded;
  // kBadHeader and others for a text that is no JSON; kOutOfMemory.
  Result<std::shared_ptr<const TokenConstraint>> json_schema_constraint(std::string_view schema) const;
  Result<std::shared_ptr<const TokenConstraint>> json_object_constraint() const;
  Result<std::shared_ptr<const TokenConstraint>> gbnf_constraint(std::string_view grammar) const;
  Result<std::shared_ptr<const TokenConstraint>> regex_constraint(std::string_view pattern) const;
  Result<std::shared_ptr<const TokenConstraint>> choice_constraint(const std::vector<std::string>& choices) const;

  // The numbers of an embedding; 0: the model makes none (EngineOptions::pooling).
  size_t embedding_dim() const;
  // A vector of length 1 for each text, which reads them all. The same texts have the same bits, whatever else is
  // computed. n_dims: the first numbers alone, brought to length 1 again, for models that are trained for it
  // (Matryoshka); 0: all.
  // Errors: kUnsupported where the model makes none; kInvalidArgument, and kContextFull with both numbers, with the
  // number of the text; kCancelled; kOutOfMemory.
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string>& texts, size_t n_dims = 0,
                                                std::stop_token stop = {}) const;

  // Ok: no directory was asked for, or it works. Otherwise why it is not used.
  Status cache_directory_status() const;
  // Whether keys and values are kept in a directory.
  bool has_cache_directory() const;
  // Writes what waits, on the calling thread. Ok: everything was written, or there is no directory. Error: what was
  // lost since the last flush, or is left at the limit.
  Status flush_cache_directory(std::chrono::nanoseconds limit = std::chrono::nanoseconds::max());

  // Forgets what sessions of a namespace have left in memory, and removes what is in the cache directory. Sessions go
  // on, and read again what they need. Error: kIo when not all files are gone.
  Status forget_namespace(std::string_view cache_namespace);

  SchedulerStats scheduler_stats() const;

  // For the files of the library (runtime/engine/engine_state.h).
  explicit Engine(std::unique_ptr<EngineState> state);
  EngineState& state() { return *state_; }
  const EngineState& state() const { return *state_; }

 private:
  std::unique_ptr<EngineState> state_;
};

}  // namespace ibid
