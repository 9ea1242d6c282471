// A small model with latent attention, as a GGUF file. Its sizes are not multiples of vectors or blocks.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/support/gguf_tensors.h"
#include "weights/gguf_writer.h"

namespace ibid {

struct LatentModel {
  DType expansion = DType::kF32;  // type of attn_kv_b
  size_t kv_rank = 64;            // a multiple of the block size of `expansion`
  size_t n_heads = 3, nope_dim = 20, rope_dim = 6, value_dim = 24;
  static constexpr size_t kDim = 64, kVocabulary = 60, kLayers = 2;

  void write(const std::string& path) const {
    GgufWriter writer;
    writer.add_string("general.architecture", "deepseek2");
    const auto number = [&](const std::string& key, size_t value) {
      writer.add_u32("deepseek2." + key, static_cast<uint32_t>(value));
    };
    number("block_count", kLayers);
    number("embedding_length", kDim);
    number("feed_forward_length", kDim);
    number("attention.head_count", n_heads);
    number("context_length", 1024);
    number("attention.kv_lora_rank", kv_rank);
    number("attention.key_length", nope_dim + rope_dim);
    number("attention.value_length", value_dim);
    number("rope.dimension_count", rope_dim);
    writer.add_f32("deepseek2.attention.layer_norm_rms_epsilon", 1e-6f);
    uint64_t state = 7;
    const auto tensor = [&](const std::string& name, DType dtype, const Shape& shape, float mean) {
      std::vector<float> values(shape.elements());
      const float size = mean != 0 ? 0.2f : 2.0f / std::sqrt(static_cast<float>(shape[shape.rank - 1]));
      for (float& value : values) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        value = mean + size * (static_cast<float>(state >> 40) / 16777216.0f * 2 - 1);
      }
      add_tensor_of(writer, name, dtype, shape, values);
    };
    const auto matrix = [&](const std::string& name, size_t rows, size_t cols, DType dtype = DType::kF32) {
      tensor(name, dtype, Shape{{rows, cols}, 2}, 0);
    };
    const auto norm = [&](const std::string& name, size_t n) { tensor(name, DType::kF32, Shape{{n}, 1}, 1); };
    matrix("token_embd.weight", kVocabulary, kDim);
    norm("output_norm.weight", kDim);
    for (size_t l = 0; l < kLayers; ++l) {
      const std::string layer = "blk." + std::to_string(l) + ".";
      norm(layer + "attn_norm.weight", kDim);
      matrix(layer + "attn_q.weight", n_heads * (nope_dim + rope_dim), kDim);
      matrix(layer + "attn_kv_a_mqa.weight", kv_rank + rope_dim, kDim);
      norm(layer + "attn_kv_a_norm.weight", kv_rank);
      matrix(layer + "attn_kv_b.weight", n_heads * (nope_dim + value_dim), kv_rank, expansion);
      matrix(layer + "attn_output.weight", kDim, n_heads * value_dim);
      norm(layer + "ffn_norm.weight", kDim);
      matrix(layer + "ffn_gate.weight", kDim, kDim);
      matrix(layer + "ffn_up.weight", kDim, kDim);
      matrix(layer + "ffn_down.weight", kDim, kDim);
    }
    const Status status = writer.write(path);
    CHECK(status.ok()) << status.to_string();
  }
};

}  // namespace ibid
