// Embeddings: vectors of many texts, one task for each (TextEmbedding). The texts share the engine's passes with
// each other and with the engine's other work.
//
// Runs just enough texts at a time to fill passes, because each needs memory for keys and values meanwhile. A text that
// finds no such memory waits until other texts are over.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "ibid/engine_options.h"
#include "ibid/token.h"
#include "ibid/turn.h"
#include "ibid/waker.h"
#include "runtime/engine/engine_state.h"
#include "runtime/scheduler/task.h"

namespace ibid {

struct EmbeddingOptions {
  size_t n_dims = 0;  // number of values of each vector to keep (TextEmbedding::Text); 0: all
  Priority priority = Priority::kNormal;
  std::stop_token stop = {};
};

// Tokenizes a text for embedding: with the tokens that the model's texts begin and end with, without special tokens
// from the text. Cuts the end of the text to at most `most` tokens in total (0: no limit). May throw std::bad_alloc.
Tokens ids_to_embed(const Tokenizer& tokenizer, std::string_view text, size_t most = 0);

// A task that embeds one text: the mean of the hidden states of all its positions, or the state of the
// last position, normalised to length 1.
//
// The states are summed in double in the order of positions, however they are split into passes. So the bits of the
// vector depend only on what logits depend on: tokens, model and storage of keys and values. Nothing of the text is
// cached: its keys and values are freed at the end.
class TextEmbedding final : public Task {
 public:
  // n_dims: number of first elements of the vector to keep; the rest is dropped before it is normalised. `ids` must
  // outlive the task. May throw std::bad_alloc. REQUIRES: the engine has a pooling; ids is not empty; n_dims is at most
  // the model's dim().
  struct Text {
    TokenSpan ids;
    size_t n_dims;
  };
  TextEmbedding(EngineState& engine, Text text, Priority priority, std::stop_token stop, std::shared_ptr<Waker> waker);

  // Returns the result of the task. Call after is_over() only. Errors: kCancelled, and those of
  // LanguageModel::forward().
  Status take_status() { return std::move(status_); }
  // [n_dims]
  std::vector<float> take_vector() { return std::move(vector_); }

 private:
  Action next(SequenceChunk& chunk) noexcept override;
  void computed(size_t n_rows, Status status, const LogitsRows& rows) noexcept override;
  void finish() noexcept;

  KvCacheEntry entry_;
  TokenSpan unfed_tokens_;
  const Pooling pooling_;
  const size_t n_tokens_, dim_;
  std::vector<float> hidden_;  // [rows of a pass, dim]; one row if only the last position counts
  std::vector<double> sum_;    // [n_dims]
  std::vector<float> vector_;  // [n_dims]
  Status status_;
};

class Embeddings {
 public:
  // Starts the tasks. `engine` must outlive the object. waker: rung when advance() should be called. Errors:
  // kUnsupported if the engine makes no embeddings, or their length is out of range; naming the number of the text:
  // kInvalidArgument for no tokens or a token outside the vocabulary, kContextFull with needed and available tokens;
  // kOutOfMemory; those of Scheduler::submit().
  static Result<std::unique_ptr<Embeddings>> begin(EngineState& engine, std::vector<Tokens> texts,
                                                   EmbeddingOptions options, std::shared_ptr<Waker> waker);
  // Cancels, and waits for running tasks.
  ~Embeddings();
  Embeddings(const Embeddings&) = delete;
  Embeddings& operator=(const Embeddings&) = delete;

  // Submits as many texts as fit. Returns true when no work is left, also after an error. For one thread at a time.
  bool advance() noexcept;
  // Call once, after advance() returned true. Returns a vector for each text, in order. Errors: the first error of a
  // TextEmbedding; kOutOfMemory of keys and values if no other text of this object was running.
  Result<std::vector<std::vector<float>>> finish();

  // Maximum memory for keys and values of running texts, if the longest text has `longest` tokens.
  static size_t most_bytes(const EngineState& engine, size_t longest);

 private:
  Embeddings(EngineState& engine, std::vector<Tokens> texts, EmbeddingOptions options, std::shared_ptr<Waker> waker);
  Status check() const;
  Status submit_next();
  void take_results();
  void fail(Status status);

  struct RunningText {
    size_t text;
    size_t n_bytes;
    std::unique_ptr<TextEmbedding> task;
  };

  EngineState& engine_;
  const std::vector<Tokens> texts_;
  const EmbeddingOptions options_;
  const std::shared_ptr<Waker> waker_;
  std::deque<size_t> waiting_;  // indices of the texts that wait
  std::vector<RunningText> running_;
  size_t n_bytes_ = 0;  // bytes of keys and values of running texts
  size_t most_bytes_ = 0;
  std::vector<std::vector<float>> vectors_;  // vector of each text, by the text's index
  Status status_;
};

// Embeds all texts, on the calling thread. Errors: those of begin() and finish().
Result<std::vector<std::vector<float>>> embed(EngineState& engine, std::vector<Tokens> texts,
                                              const EmbeddingOptions& options = {});

}  // namespace ibid
