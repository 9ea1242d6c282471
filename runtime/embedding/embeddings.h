// Embeddings: vectors of many texts, one task for each (text_embedding.h). The texts share the engine's passes with
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
#include <vector>

#include "base/result.h"
#include "ibid/token.h"
#include "ibid/turn.h"
#include "ibid/waker.h"
#include "runtime/embedding/text_embedding.h"
#include "runtime/engine/engine_state.h"

namespace ibid {

struct EmbeddingOptions {
  size_t n_dims = 0;  // number of values of each vector, as in TextEmbedding; 0: all
  Priority priority = Priority::kNormal;
  std::stop_token stop = {};
};

// Tokenizes a text for embedding: with the tokens that the model's texts begin and end with, without special tokens
// from the text. Cuts the end of the text to at most `most` tokens in total (0: no limit). May throw std::bad_alloc.
Tokens ids_to_embed(const Tokenizer& tokenizer, std::string_view text, size_t most = 0);

class Embeddings {
 public:
  // Starts the tasks. `engine` must outlive the object. bell: rings when advance() should be called. Errors:
  // kUnsupported if the engine makes no embeddings, or their length is out of range; naming the number of the text:
  // kInvalidArgument for no tokens or a token outside the vocabulary, kContextFull with needed and available tokens;
  // kOutOfMemory; those of Scheduler::submit().
  static Result<std::unique_ptr<Embeddings>> begin(EngineState& engine, std::vector<Tokens> texts,
                                                   EmbeddingOptions options, std::shared_ptr<Waker> bell);
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
  Embeddings(EngineState& engine, std::vector<Tokens> texts, EmbeddingOptions options, std::shared_ptr<Waker> bell);
  Status check() const;
  Status submit_next();
  void take_results();
  void fail(Status status);

  struct UnderWay {
    size_t text;
    size_t n_bytes;
    std::unique_ptr<TextEmbedding> task;
  };

  EngineState& engine_;
  const std::vector<Tokens> texts_;
  const EmbeddingOptions options_;
  const std::shared_ptr<Waker> bell_;
  std::deque<size_t> waiting_;  // indices of the texts that wait
  std::vector<UnderWay> under_way_;
  size_t n_bytes_ = 0;  // bytes of keys and values of running texts
  size_t most_bytes_ = 0;
  std::vector<std::vector<float>> vectors_;  // vector of each text, by the text's index
  Status status_;
};

// Embeds all texts, on the calling thread. Errors: those of begin() and finish().
Result<std::vector<std::vector<float>>> embed(EngineState& engine, std::vector<Tokens> texts,
                                              const EmbeddingOptions& options = {});

}  // namespace ibid
