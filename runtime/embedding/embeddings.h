// Embeddings: vectors of many texts, a task for each (text_embedding.h). The texts share the engine's passes with each
// other and with whatever else it computes.
//
// So many are under way at a time that they fill passes, and no more than that, because each takes keys and values
// while it is read. A text that finds no memory for them waits until others are through.
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
#include "runtime/embedding/text_embedding.h"
#include "runtime/engine/engine.h"
#include "runtime/scheduler/bell.h"

namespace ibid {

struct EmbeddingOptions {
  size_t n_dims = 0;  // of each vector, as in TextEmbedding; 0: all
  Priority priority = Priority::kNormal;
  std::stop_token stop = {};
};

// The ids that a text is embedded by: with what the model's texts begin and end with, and no special token in it.
// Where it has more than `most` (0: any number), the end of the text is left out. May throw std::bad_alloc.
Tokens ids_to_embed(const Tokenizer& tokenizer, std::string_view text, size_t most = 0);

class Embeddings {
 public:
  // Begins. bell: rings when advance() should be called.
  // Errors: kUnsupported where the engine makes none, or n_dims is more than there are; kInvalidArgument for a text
  // without ids, or with an id outside of the vocabulary; kContextFull, with both numbers; kOutOfMemory; those of
  // Scheduler::submit(). Each names the text by its number among all.
  static Result<std::unique_ptr<Embeddings>> begin(std::shared_ptr<Engine> engine, std::vector<Tokens> texts,
                                                   EmbeddingOptions options, std::shared_ptr<Bell> bell);
  // Cancels, and waits for what is under way.
  ~Embeddings();
  Embeddings(const Embeddings&) = delete;
  Embeddings& operator=(const Embeddings&) = delete;

  // Submits what fits. True: it is over. One thread at a time calls it.
  bool advance() noexcept;
  // For after advance() was true, once: a vector for each text, in their order. Errors: those of TextEmbedding, of the
  // first that failed; kOutOfMemory of keys and values where nothing else of these texts was under way.
  Result<std::vector<std::vector<float>>> finish();

  // How much memory for keys and values is under way at most, by the number of ids of the longest text.
  static size_t most_bytes(const Engine& engine, size_t longest);

 private:
  Embeddings(std::shared_ptr<Engine> engine, std::vector<Tokens> texts, EmbeddingOptions options,
             std::shared_ptr<Bell> bell);
  Status check() const;
  Status submit_next();
  void hear();
  void fail(Status status);

  struct UnderWay {
    size_t text;
    size_t n_bytes;
    std::unique_ptr<TextEmbedding> task;
  };

  const std::shared_ptr<Engine> engine_;
  const std::vector<Tokens> texts_;
  const EmbeddingOptions options_;
  const std::shared_ptr<Bell> bell_;
  std::deque<size_t> waiting_;        // texts by number
  std::vector<UnderWay> under_way_;
  size_t n_bytes_ = 0;                // of keys and values, of those under way
  size_t most_bytes_ = 0;
  std::vector<std::vector<float>> vectors_;  // by text
  Status status_;
};

// All of it, on the calling thread. Errors: as above.
Result<std::vector<std::vector<float>>> embed(const std::shared_ptr<Engine>& engine, std::vector<Tokens> texts,
                                              const EmbeddingOptions& options = {});

}  // namespace ibid
