// ModelHeader: what a model's file says of itself, for lists of models. The weights are not read, so it costs the same
// for a model that is not loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "server/service/model_host.h"
#include "weights/model_file.h"

namespace ibid::serve {

struct ModelHeader {
  std::string format = {};        // "gguf", "safetensors"; empty: the file cannot be read
  std::string family = {};        // its architecture: "llama"
  uint64_t n_params = 0;
  std::string quantization = {};  // "Q4_K_M": what the file was made as; or the type of most of its numbers
  size_t trained_context = 0;     // 0: it does not say
  size_t embedding_dim = 0;       // of a token within the model; 0: it does not say
  std::string chat_template = {};
};

ModelHeader read_model_header(const ModelFile& file);

// Reads each file once, and again when it was replaced. Thread-safe.
class ModelHeaders {
 public:
  ModelHeader of(const HostedModel& model);

 private:
  struct Known {
    uint64_t file_bytes = 0;
    int64_t created_s = 0;
    ModelHeader header;
  };
  std::mutex mutex_;
  std::map<std::string, Known> by_path_;
};

}  // namespace ibid::serve
