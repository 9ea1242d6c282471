// Engine: one loaded model and everything that its conversations share: the tokenizer, the chat template, and the
// cached keys and values with their index.
//
// An engine computes on n_threads threads of its own, which load() starts. Sessions start no threads.
//
// Thread-safe: any number of sessions on any threads share the passes of the model. Sessions hold a shared pointer to
// their engine. Destroying the last pointer waits for the engine's threads, and at most one second for pending writes
// to the cache directory. In a child process after fork() every call of a session returns kUnsupported, because the
// threads exist only in the parent: load the model after fork().
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
#include "ibid/score.h"
#include "ibid/token.h"

namespace ibid {

class EngineState;

class IBID_EXPORT Engine {
 public:
  // Loads the model at `path`: a .gguf file, or a directory with safetensors and config.json.
  // Errors: kInvalidArgument with name, value and range for an option out of range; kOutOfMemory; those of reading the
  // files, which name the file and the defect.
  static Result<std::shared_ptr<Engine>> load(const std::string& path, const EngineOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Name of the model in messages: the path from which it was loaded.
  const std::string& name() const;
  // Defects of the model's files in spite of which the model was loaded.
  const std::vector<std::string>& warnings() const;
  // The context length, in positions.
  size_t max_seq_len() const;
  // If false, ChatSession::create() returns kUnsupported.
  bool has_chat_template() const;

  // The largest token id + 1.
  size_t vocab_size() const;
  // Tokenizes a text without recognising special tokens, as for user input. Error: kOutOfMemory.
  Result<Tokens> encode(std::string_view text) const;
  // The bytes of a token, special tokens included; empty if `id` is out of range. May be a part of a character. The
  // view is valid as long as the engine exists.
  std::string_view token_bytes(TokenId id) const;

  // Make constraints for TurnOptions::constraint: JSON that matches a schema, any JSON object, text of a grammar in
  // llama.cpp's notation (GBNF), text that a regular expression matches as a whole, or one of several texts. The most
  // recent constraints are cached. docs/structured_output.md lists what is supported. Errors: kUnsupported (names the
  // keyword or notation and its place), kInvalidArgument, kLimitExceeded; kBadHeader and others for text that is not
  // JSON; kOutOfMemory.
  Result<std::shared_ptr<const TokenConstraint>> json_schema_constraint(std::string_view schema) const;
  Result<std::shared_ptr<const TokenConstraint>> json_object_constraint() const;
  Result<std::shared_ptr<const TokenConstraint>> gbnf_constraint(std::string_view grammar) const;
  Result<std::shared_ptr<const TokenConstraint>> regex_constraint(std::string_view pattern) const;
  Result<std::shared_ptr<const TokenConstraint>> choice_constraint(const std::vector<std::string>& choices) const;

  // Length of an embedding; 0: the model computes none (EngineOptions::pooling).
  size_t embedding_dim() const;
  // Runs all texts through the model and returns one vector of length 1 for each; equal texts give equal bits at any
  // time. n_dims: keeps only the first n_dims numbers and normalises them again, for models trained for that
  // (Matryoshka); 0: all. Errors: kUnsupported if the model computes no embeddings; kInvalidArgument, and kContextFull
  // with needed and available tokens, naming the number of the text; kCancelled; kOutOfMemory.
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string>& texts, size_t n_dims = 0,
                                                std::stop_token stop = {}) const;

  // Returns the log-probabilities of tokens, each given the tokens before it; special tokens are allowed. Equal tokens
  // have equal scores at any time. Errors: kUnsupported for an embedding model; kInvalidArgument for no tokens, a token
  // outside the vocabulary, or n_top above 20; kContextFull with needed and available tokens; kCancelled; kOutOfMemory.
  Result<Scored> score(TokenSpan ids, const ScoreOptions& options = ScoreOptions()) const;

  // Ok if the cache directory works or none was requested; otherwise the reason why it is not used.
  Status cache_directory_status() const;
  // True if keys and values are kept in a directory.
  bool has_cache_directory() const;
  // Writes pending data on the calling thread. Ok: all data is written, or there is no directory. Error: data was lost
  // since the last flush, or some is still pending at the time limit.
  Status flush_cache_directory(std::chrono::nanoseconds limit = std::chrono::nanoseconds::max());

  // Drops the cached KV of a namespace from memory and from the cache directory. Sessions of that namespace stay usable
  // and prefill again what they need. Error: kIo if some files could not be removed.
  Status forget_namespace(std::string_view cache_namespace);

  SchedulerStats scheduler_stats() const;

  // Internal (runtime/engine/engine_state.h).
  explicit Engine(std::unique_ptr<EngineState> state);
  EngineState& state() { return *state_; }
  const EngineState& state() const { return *state_; }

 private:
  std::unique_ptr<EngineState> state_;
};

}  // namespace ibid
