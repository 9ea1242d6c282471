// Backend: what protocols ask of the service, and all that they know of it. ServiceBackend (service_backend.h) is the
// one of a server; tests give their own. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/service/answer_request.h"
#include "apps/serve/service/embedding_request.h"
#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace ibid::serve {

// A model by name, as lists of models show it.
struct ModelCard {
  std::string name;
  uint64_t file_bytes = 0;
  int64_t created_s = 0;        // of its file, seconds since 1970
  bool is_loaded = false;
  // Of a loaded model:
  size_t max_seq_len = 0;       // positions of its context
  size_t vocab_size = 0;
  std::string chat_template = {};  // its source; empty: it has none
  size_t embedding_dim = 0;     // numbers of an embedding; 0: it makes none
  bool answers = true;          // false: it is made for embeddings alone
};

class Backend {
 public:
  virtual ~Backend() = default;

  // As AnswerService has them (apps/serve/service/answer_service.h).
  virtual void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop) = 0;
  virtual void embed(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener,
                     std::stop_token stop) = 0;
  virtual Result<size_t> count_prompt(const AnswerRequest& request) = 0;
  virtual Result<std::string> render_prompt(const AnswerRequest& request) = 0;

  // The models that there are, the one that an empty name means first.
  virtual std::vector<ModelCard> models() const = 0;
  // How answers of that model are sampled where a request says nothing.
  virtual TurnOptions default_options(std::string_view model) const = 0;
  // Loads the model if need be, and keeps it loaded as long as the pointer is held. Errors: kNotFound; the loader's.
  virtual Result<std::shared_ptr<const Tokenizer>> tokenizer(std::string_view model) = 0;
  // Unloads it once nobody uses it. Errors: kNotFound.
  virtual Status unload(std::string_view model) = 0;
};

}  // namespace ibid::serve
