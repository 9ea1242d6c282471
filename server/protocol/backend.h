// Backend: what protocols ask of the service, and all that they know of it. ServiceBackend (service_backend.h) is the
// one of a server; tests give their own. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/service/answer_request.h"
#include "server/service/embedding_request.h"
#include "server/service/model_header.h"
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

// What a request that is not answered by a model has of one: which it means, whose it is, and how much text it brings.
struct ModelCall {
  std::string model = {};
  std::string cache_namespace = {};
  size_t n_bytes = 0;
  std::optional<std::chrono::milliseconds> keep_alive = {};  // as in AnswerRequest
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Is called once, perhaps within the call, on some thread of the service; must not throw. Errors: as
  // AnswerListener::end() has them.
  template <typename Value>
  using Then = std::function<void(const Result<Value>&)>;

  // As AnswerService has them (server/service/answer_service.h).
  virtual void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop) = 0;
  virtual void embed(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener,
                     std::stop_token stop) = 0;
  virtual void count_prompt(AnswerRequest request, Then<size_t> then, std::stop_token stop) = 0;
  virtual void render_prompt(AnswerRequest request, Then<std::string> then, std::stop_token stop) = 0;
  // Loads the model if need be, and then has `then` do something short with its tokenizer.
  virtual void with_tokenizer(ModelCall call, Then<std::shared_ptr<const Tokenizer>> then, std::stop_token stop) = 0;
  // Runs `work` on a thread that may wait for the disk and that no other client's answer waits
  // for: requests about what is kept, and the ends of answers that are kept. It must not call the service.
  virtual void write_behind(std::function<void()> work) = 0;
  // Has the model unloaded once nobody uses it. Error: kNotFound.
  virtual Status unload(std::string_view model) = 0;

  // The name of the model that a request means, as models() has it. Error: kNotFound, naming those that there are.
  virtual Result<std::string> resolve(std::string_view model) const = 0;
  // The models that there are, the one that an empty name means first.
  virtual std::vector<ModelCard> models() const = 0;
  // What the file of one of them says, loaded or not. It is read when it is first asked for.
  virtual ModelHeader header(std::string_view model) const = 0;
  // How answers of that model are sampled where a request says nothing.
  virtual TurnOptions default_options(std::string_view model) const = 0;
};

}  // namespace ibid::serve
