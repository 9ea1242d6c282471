#include "tests/support/tiny_model.h"

#include <cmath>

#include "base/check.h"
#include "model/architectures/architectures.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/random_blocks.h"
#include "tests/support/temp_dir.h"
#include "weights/gguf_writer.h"

namespace ibid {

namespace {

// A counter-based generator (SplitMix64): the same numbers on every machine.
uint64_t random_bits(uint64_t seed, uint64_t n) {
  uint64_t z = (seed << 32) + (n + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class TensorMaker {
 public:
  TensorMaker(GgufWriter& writer, const TinyModel& model)
      : writer_(writer), seed_(model.seed), norm_mean_(model.norm_mean), without_(model.without) {}

  // Adds the matrices of all experts as one tensor, [n, rows, cols].
  void stacked(const std::string& name, DType dtype, size_t n, size_t rows, size_t cols) {
    add_matrices(name, dtype, Shape{{n, rows, cols}, 3}, cols);
  }
  // Adds a matrix of uniform weights, scaled so that its products have the magnitude of their input.
  void matrix(const std::string& name, DType dtype, size_t rows, size_t cols) {
    add_matrices(name, dtype, Shape{{rows, cols}, 2}, cols);
  }
  void norm(const std::string& name, size_t n) { add(name, DType::kF32, Shape{{n}, 1}, norm_mean_, 0.2f); }
  void bias(const std::string& name, size_t n) { add(name, DType::kF32, Shape{{n}, 1}, 0.0f, 0.3f); }

 private:
  void add_matrices(const std::string& name, DType dtype, const Shape& shape, size_t cols) {
    if (name == without_) return;
    const float spread = 1.7f / std::sqrt(static_cast<float>(cols));
    if (is_encoded(dtype)) return add(name, dtype, shape, 0.0f, spread);
    const float rms = spread / std::sqrt(3.0f);
    writer_.add_tensor(name, dtype, shape, random_blocks(dtype, shape.elements(), rms, seed_ + n_drawn_++));
  }
  // True for types that have an encoder; the others get random blocks.
  static bool is_encoded(DType dtype) {
    return dtype < DType::kTQ1_0 && dtype != DType::kQ2_K && dtype != DType::kQ3_K;
  }

  void add(const std::string& name, DType dtype, const Shape& shape, float mean, float spread) {
    if (name == without_) return;
    std::vector<float> values(shape.elements());
    for (float& value : values) {
      const double unit = static_cast<double>(random_bits(seed_, n_drawn_++) >> 11) * 0x1p-53;  // [0, 1)
      value = mean + spread * static_cast<float>(2 * unit - 1);
    }
    add_tensor_of(writer_, name, dtype, shape, values);
  }

  GgufWriter& writer_;
  uint64_t seed_;
  float norm_mean_;
  std::string without_;
  uint64_t n_drawn_ = 0;
};

void add_experts(TensorMaker& make, const TinyModel& m, const std::string& blk) {
  const size_t n = m.n_experts, f = m.expert_ffn_dim;
  make.matrix(blk + "ffn_gate_inp.weight", DType::kF32, n, m.dim);
  make.stacked(blk + "ffn_gate_exps.weight", m.matrix_dtype, n, f, m.dim);
  make.stacked(blk + "ffn_up_exps.weight", m.matrix_dtype, n, f, m.dim);
  make.stacked(blk + "ffn_down_exps.weight", m.matrix_dtype, n, m.dim, f);
  if (m.shared_ffn_dim == 0) return;
  make.matrix(blk + "ffn_gate_inp_shexp.weight", DType::kF32, 1, m.dim);
  make.matrix(blk + "ffn_gate_shexp.weight", m.matrix_dtype, m.shared_ffn_dim, m.dim);
  make.matrix(blk + "ffn_up_shexp.weight", m.matrix_dtype, m.shared_ffn_dim, m.dim);
  make.matrix(blk + "ffn_down_shexp.weight", m.matrix_dtype, m.dim, m.shared_ffn_dim);
}

void add_layer(TensorMaker& make, const TinyModel& m, const std::string& blk) {
  const size_t q_dim = m.n_heads * m.head_dim;
  const size_t kv_dim = m.n_kv_heads * m.head_dim;
  make.norm(blk + "attn_norm.weight", m.dim);
  make.matrix(blk + "attn_q.weight", m.matrix_dtype, q_dim, m.dim);
  make.matrix(blk + "attn_k.weight", m.matrix_dtype, kv_dim, m.dim);
  make.matrix(blk + "attn_v.weight", m.matrix_dtype, kv_dim, m.dim);
  make.matrix(blk + "attn_output.weight", m.matrix_dtype, m.dim, q_dim);
  make.norm(blk + "ffn_norm.weight", m.dim);
  if (m.n_experts > 0) {
    add_experts(make, m, blk);
  } else {
    make.matrix(blk + "ffn_gate.weight", m.matrix_dtype, m.ffn_dim, m.dim);
    make.matrix(blk + "ffn_up.weight", m.matrix_dtype, m.ffn_dim, m.dim);
    make.matrix(blk + "ffn_down.weight", m.matrix_dtype, m.dim, m.ffn_dim);
  }
  if (!m.biases) return;
  make.bias(blk + "attn_q.bias", q_dim);
  make.bias(blk + "attn_k.bias", kv_dim);
  make.bias(blk + "attn_v.bias", kv_dim);
  make.bias(blk + "attn_output.bias", m.dim);
}

}  // namespace

GgufWriter tiny_model_writer(const TinyModel& m) {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  const auto count = [&](const char* key, size_t value) {
    writer.add_u32(std::string("llama.") + key, static_cast<uint32_t>(value));
  };
  count("block_count", m.n_layers);
  count("embedding_length", m.dim);
  count("feed_forward_length", m.ffn_dim);
  count("attention.head_count", m.n_heads);
  count("attention.head_count_kv", m.n_kv_heads);
  count("attention.key_length", m.head_dim);
  count("attention.value_length", m.head_dim);
  count("context_length", m.context);
  if (m.n_experts > 0) {
    count("expert_count", m.counted_experts > 0 ? m.counted_experts : m.n_experts);
    count("expert_used_count", m.n_experts_active);
    count("expert_feed_forward_length", m.counted_expert_ffn_dim > 0 ? m.counted_expert_ffn_dim : m.expert_ffn_dim);
    if (m.shared_ffn_dim > 0) count("expert_shared_feed_forward_length", m.shared_ffn_dim);
  }
  writer.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.add_f32("llama.rope.freq_base", 10000.0f);

  TensorMaker make(writer, m);
  make.matrix("token_embd.weight", m.embed_dtype, m.vocab_size, m.dim);
  make.norm("output_norm.weight", m.dim);
  if (!m.tied) make.matrix("output.weight", m.head_dtype, m.vocab_size, m.dim);
  for (size_t layer = 0; layer < m.n_layers; ++layer) add_layer(make, m, "blk." + std::to_string(layer) + ".");
  return writer;
}

void write_tiny_model(const TinyModel& model, const std::string& path) {
  const Status status = tiny_model_writer(model).write(path);
  CHECK(status.ok()) << status.message();
}

std::unique_ptr<TransformerModel> load_tiny_model(const TinyModel& tiny, const ModelOptions& options) {
  const TempDir dir;
  const std::string path = dir.file("tiny.gguf");
  write_tiny_model(tiny, path);
  const auto file = open_model_file(path);
  CHECK(file.ok()) << file.status().message();
  Result<ModelConfig> config = read_config(**file);
  CHECK(config.ok()) << config.status().message();
  Result<std::unique_ptr<TransformerModel>> model = TransformerModel::create(**file, *std::move(config), options);
  CHECK(model.ok()) << model.status().message();
  return *std::move(model);
}

Tokens random_tokens(size_t n, size_t vocab_size, uint32_t seed) {
  Tokens tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<TokenId>(random_bits(seed, i) % vocab_size);
  return tokens;
}

}  // namespace ibid
