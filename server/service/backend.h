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

// An entry of the lists of models.
struct ModelCard {
  std::string name;
  std::string path = {};  // path of the model's file or directory
  uint64_t file_bytes = 0;
  int64_t created_s = 0;  // modification time of the model's file, in seconds since 1970
  bool is_loaded = false;
  // The following members are set for a loaded model only.
  size_t max_seq_len = 0;  // positions of the context
  size_t vocab_size = 0;
  std::string chat_template = {};  // source of the template; empty: the model has none
  size_t embedding_dim = 0;        // size of an embedding; 0: the model makes no embeddings
  bool answers = true;             // the model can answer; false: it only makes embeddings
  bool thinks = false;             // the model's template has reasoning
  bool infills = false;            // the model's vocabulary has tokens for filling in the middle
  // Time until the model is unloaded if no request uses it; nullopt: never.
  std::optional<std::chrono::nanoseconds> unloads_in = {};
};

// The metadata in a model's file.
struct ModelHeader {
  std::string format = {};    // "gguf", "safetensors"; empty: the file cannot be read
  std::string family = {};    // architecture of the model, for example "llama"
  std::string basename = {};  // name without size and version: "SmolLM2"; empty: the file has none
  uint64_t n_params = 0;
  std::string quantization = {};  // "Q4_K_M": the type that the file declares; else the type of most weights
  size_t trained_context = 0;     // positions for which the model was trained; 0: unknown
  size_t embedding_dim = 0;       // size of a token's vector within the model; 0: unknown
  std::string chat_template = {};
};

// A request that needs a model's tokenizer and no computation.
struct ModelCall {
  std::string model = {};
  std::string cache_namespace = {};
  size_t n_bytes = 0;
  std::optional<std::chrono::milliseconds> keep_alive = {};  // as AnswerRequest::keep_alive
};

// The requests of a server now, and the memory that running ones hold, in positions of keys and values.
struct BackendLoad {
  size_t n_running = 0, n_waiting = 0;  // requests for answers
  size_t n_used_tokens = 0;             // positions held by running requests, in whole pages
  size_t n_tokens = 0;                  // positions that fit in the budgets of the loaded models
};

class Backend {
 public:
  virtual ~Backend() = default;

  // A callback for a result. It is called once, on a thread of the service, perhaps before the call to which it was
  // passed returns. It must not throw. Errors: those of AnswerListener::end().
  template <typename Value>
  using Then = std::function<void(const Result<Value>&)>;

  // The following calls return without waiting. All results, errors included, go to the listener or to `then`. stop:
  // cancels the request, whose computation then ends within a layer.
  virtual void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop) = 0;
  virtual void embed(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token stop) = 0;
  // encode_prompt(): returns the tokens of the request's prompt. render_prompt(): renders the prompt with the model's
  // template.
  virtual void encode_prompt(AnswerRequest request, Then<Tokens> then, std::stop_token stop) = 0;
  virtual void render_prompt(AnswerRequest request, Then<std::string> then, std::stop_token stop) = 0;
  // Passes the model's tokenizer to `then`, which must not take long; loads the model first if necessary.
  virtual void with_tokenizer(ModelCall call, Then<std::shared_ptr<const Tokenizer>> then, std::stop_token stop) = 0;
  // Runs `work` on the writing thread, where it may wait for the disk. For changes of stored data, and for the ends of
  // answers that are stored. No other client's answer waits for it. `work` must not call the service; exceptions of
  // `work` are ignored.
  virtual void write_behind(std::function<void()> work) = 0;
  // Unloads the model as soon as no request uses it. Returns at once. Error: kNotFound.
  virtual Status unload(std::string_view model) = 0;

  // Returns the name, as in models(), of the model that a request names. Error: kNotFound, listing all names.
  virtual Result<std::string> resolve(std::string_view model) const = 0;
  // Returns all models. A request with an empty model name means the first one.
  virtual std::vector<ModelCard> models() const = 0;
  virtual BackendLoad load() const { return {}; }
  // Returns the header of a model's file, whether the model is loaded or not. Only the first call reads the file.
  virtual ModelHeader header(std::string_view model) const = 0;
  // Returns the sampling options of the model for requests that set none of them.
  virtual TurnOptions default_options(std::string_view model) const = 0;
};

}  // namespace ibid::serve
