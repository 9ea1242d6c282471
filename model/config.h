// ModelConfig: an architecture as data. Read from a model file by read_config() (model/architectures.h);
// below that file nothing asks for an architecture's name.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/rope.h"

namespace ibid {

struct LayerConfig {
  size_t window = 0;  // sliding attention span in positions; 0: the whole sequence
};

struct ModelConfig {
  std::string architecture;       // as the file names it, for people

  size_t vocab_size = 0;          // V
  size_t n_layers = 0;            // L
  size_t dim = 0;                 // D
  size_t ffn_dim = 0;             // F
  size_t n_heads = 0;             // H
  size_t n_kv_heads = 0;          // G
  size_t head_dim = 0;            // d
  size_t trained_context = 0;     // positions the model was trained for

  float norm_eps = 0;
  float attention_scale = 0;      // of the scores; d^-1/2 unless the architecture says otherwise
  RopeRule rope;                  // rope.rotary_dim <= head_dim

  // The file stores the rows of wq and wk so that RoPE rotates adjacent pairs (GGUF's llama); they are put
  // back to halves while packing.
  bool qk_rows_permuted = false;

  std::vector<LayerConfig> layers;  // [L]

  size_t q_dim() const { return n_heads * head_dim; }
  size_t kv_dim() const { return n_kv_heads * head_dim; }
  size_t group_size() const { return n_heads / n_kv_heads; }
};

}  // namespace ibid
