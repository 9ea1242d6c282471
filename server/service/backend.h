// Backend: the calls that protocols make to the service. Service (server/service/service.h) implements it; tests of
// protocols have a fake. Thread-safe.
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
#include "server/service/request.h"

namespace ibid::serve {

// A model by name, as lists of models show it.
struct ModelCard {
  std::string name;
  uint64_t file_bytes = 0;
  int64_t created_s = 0;  // of its file, seconds since 1970
  bool is_loaded = false;
  // Set for a loaded model:
  size_t max_seq_len = 0;  // positions of its context
  size_t vocab_size = 0;
  std::string chat_template = {};  // its source; empty: it has none
  size_t embedding_dim = 0;        // numbers of an embedding; 0: it makes none
  bool answers = true;             // false: it makes embeddings alone
};

// A model's own description in its file.
struct ModelHeader {
  std::string format = {};  // "gguf", "safetensors"; empty: the file cannot be read
  std::string family = {};  // its architecture: "llama"
  uint64_t n_params = 0;
  std::string quantization = {};  // "Q4_K_M": the type in the file's header; or the type of most of its numbers
  size_t trained_context = 0;     // 0: not given
  size_t embedding_dim = 0;       // of a token within the model; 0: not given
  std::string chat_template = {};
};

// A request that needs a model's tokenizer and no computation: which model, for which namespace, and how much text.
struct ModelCall {
  std::string model = {};
  std::string cache_namespace = {};
  size_t n_bytes = 0;
  std::optional<std::chrono::milliseconds> keep_alive = {};  // as in AnswerRequest
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Called once, perhaps within the call that it is given to, on some thread of the service; must not throw. Errors:
  // those of AnswerListener::end().
  template <typename Value>
  using Then = std::function<void(const Result<Value>&)>;

  // These return soon. All results, errors included, go to the listener or to `then`. stop: the client has left; its
  // computation ends within a layer.
  virtual void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop) = 0;
  virtual void embed(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token stop) = 0;
  // How many tokens the request's prompt has; the text that the template makes of it.
  virtual void count_prompt(AnswerRequest request, Then<size_t> then, std::stop_token stop) = 0;
  virtual void render_prompt(AnswerRequest request, Then<std::string> then, std::stop_token stop) = 0;
  // Loads the model if need be, and passes its tokenizer, to be used for something short.
  virtual void with_tokenizer(ModelCall call, Then<std::shared_ptr<const Tokenizer>> then, std::stop_token stop) = 0;
  // Runs `work`, which may wait for the disk, on a thread that no answer of another client waits for: changes of what
  // is kept, and the ends of answers that are kept. The work must not call the service; what it throws ends with it.
  virtual void write_behind(std::function<void()> work) = 0;
  // Has the model unloaded once it has no users. Returns at once. Error: kNotFound.
  virtual Status unload(std::string_view model) = 0;

  // The name in models() of the model that a request means. Error: kNotFound, listing all names.
  virtual Result<std::string> resolve(std::string_view model) const = 0;
  // All models; the first is the one that an empty name means.
  virtual std::vector<ModelCard> models() const = 0;
  // The header of a model's file, loaded or not. The file is read at the first call.
  virtual ModelHeader header(std::string_view model) const = 0;
  // The sampling options of that model for requests that set none.
  virtual TurnOptions default_options(std::string_view model) const = 0;
};

}  // namespace ibid::serve
