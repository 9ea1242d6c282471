// Tiny models with random weights, written as real GGUF files, so that tests of the loader and of layers above run in
// milliseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ibid/token.h"
#include "model/config/model_options.h"
#include "model/forward/transformer.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {

// A tiny llama. The default sizes are difficult ones: three blocks of 32 in a row of ffn (an odd number), grouped
// heads. head_dim may be set to a number that is not a power of two.
struct TinyModel {
  size_t n_layers = 3;
  size_t dim = 64;
  size_t ffn_dim = 96;
  size_t n_heads = 4;
  size_t n_kv_heads = 2;
  size_t head_dim = 16;
  size_t vocab_size = 120;
  size_t context = 1024;
  DType matrix_dtype = DType::kF32;  // type of wq ... w_down
  DType embed_dtype = DType::kF32;
  DType head_dtype = DType::kF32;
  bool tied = false;    // no output.weight
  bool biases = false;  // every matrix that may have a bias has one
  // If there are experts, they replace the MLP of every layer. The router uses a softmax over all of them.
  size_t n_experts = 0, n_experts_active = 2, expert_ffn_dim = 32;
  size_t shared_ffn_dim = 0;  // F of a shared expert with a gate
  // Numbers to write to the metadata although the tensors have others; 0: write those of the tensors.
  size_t counted_experts = 0, counted_expert_ffn_dim = 0;
  std::string without;     // name of a tensor of the layers to omit
  float norm_mean = 1.0f;  // mean of the norm weights
  uint32_t seed = 1;
};

// Returns the model as a GGUF file (without a tokenizer), which may be changed before it is written.
GgufWriter tiny_model_writer(const TinyModel& model);
// Writes the model to `path`.
void write_tiny_model(const TinyModel& model, const std::string& path);

// Writes, opens and loads a model, and removes the file.
std::unique_ptr<TransformerModel> load_tiny_model(const TinyModel& model, const ModelOptions& options);

// Pseudo-random tokens below `vocab_size`, the same on every machine.
Tokens random_tokens(size_t n, size_t vocab_size, uint32_t seed);

}  // namespace ibid
