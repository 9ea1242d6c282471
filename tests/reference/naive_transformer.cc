#include "tests/reference/naive_transformer.h"

#include <cmath>

#include "base/check.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

std::vector<double> multiply(const std::vector<std::vector<double>>& w, const std::vector<double>& x) {
  std::vector<double> y(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    for (size_t k = 0; k < x.size(); ++k) y[i] += w[i][k] * x[k];
  }
  return y;
}

void add(std::vector<double>& x, const std::vector<double>& y) {
  for (size_t i = 0; i < y.size(); ++i) x[i] += y[i];
}

// The frequency of pair i, by the rule's definition (transformers, modeling_rope_utils).
double frequency(const RopeRule& rule, size_t i) {
  const double plain = std::pow(rule.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rule.rotary_dim));
  if (!rule.frequency_factors.empty()) return plain / static_cast<double>(rule.frequency_factors[i]);
  if (rule.kind == RopeRule::Kind::kLinear) return plain / rule.factor;
  return plain;
}

}  // namespace

std::string NaiveTransformer::name(const char* gguf, const char* hf, size_t layer) const {
  if (file_.container() == Container::kGguf) return "blk." + std::to_string(layer) + "." + gguf;
  return "model.layers." + std::to_string(layer) + "." + hf;
}

NaiveTransformer::Matrix NaiveTransformer::matrix(const std::string& name) const {
  const TensorView* tensor = file_.find_tensor(name);
  if (tensor == nullptr) return {};
  const bool is_vector = tensor->shape.rank == 1;
  const size_t rows = is_vector ? 1 : tensor->shape[0];
  const size_t cols = is_vector ? tensor->shape[0] : tensor->shape[1];
  Matrix m(rows, Vector(cols));
  std::vector<float> values(rows * cols);
  dequantize_row(tensor->dtype, tensor->data, values);
  for (size_t i = 0; i < values.size(); ++i) m[i / cols][i % cols] = static_cast<double>(values[i]);

  const bool rotated = name.find("attn_q.") != std::string::npos || name.find("attn_k.") != std::string::npos;
  if (!rotated || !config_.adjacent_pairs) return m;
  // Row 2 i + s of a head in the file is row i + s d / 2 of the definition.
  const size_t d = config_.layers[0].head_dim;
  Matrix halves = m;
  const auto place = [&](size_t row) { return row / d * d + row % d / 2 + row % 2 * d / 2; };
  if (is_vector) {
    for (size_t i = 0; i < cols; ++i) halves[0][place(i)] = m[0][i];
  } else {
    for (size_t i = 0; i < rows; ++i) halves[place(i)] = m[i];
  }
  return halves;
}

NaiveTransformer::Vector NaiveTransformer::vector(const std::string& name) const {
  const Matrix m = matrix(name);
  return m.empty() ? Vector{} : m[0];
}

NaiveTransformer::Vector NaiveTransformer::norm(const Vector& x, const Vector& weight) const {
  double mean_square = 0;
  for (const double value : x) mean_square += value * value;
  mean_square /= static_cast<double>(x.size());
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] / std::sqrt(mean_square + static_cast<double>(config_.norm_eps)) * weight[i];
  }
  return y;
}

void NaiveTransformer::rotate(Vector& heads, size_t n_heads, size_t position) const {
  const size_t half = config_.ropes[0].rotary_dim / 2;
  for (size_t h = 0; h < n_heads; ++h) {
    double* x = heads.data() + h * config_.layers[0].head_dim;
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequency(config_.ropes[0], i);
      const double a = x[i];
      const double b = x[i + half];
      x[i] = a * std::cos(angle) - b * std::sin(angle);
      x[i + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
}

void NaiveTransformer::attention(size_t layer, Matrix& x) const {
  const Vector weight = vector(name("attn_norm.weight", "input_layernorm.weight", layer));
  const auto project = [&](const char* gguf, const char* hf, const Vector& h) {
    const std::string g(gguf);
    const std::string f(hf);
    Vector y = multiply(matrix(name((g + ".weight").c_str(), (f + ".weight").c_str(), layer)), h);
    add(y, vector(name((g + ".bias").c_str(), (f + ".bias").c_str(), layer)));
    return y;
  };
  const size_t d = config_.layers[0].head_dim;
  Matrix keys;
  Matrix values;
  for (size_t position = 0; position < x.size(); ++position) {
    const Vector h = norm(x[position], weight);
    Vector q = project("attn_q", "self_attn.q_proj", h);
    Vector k = project("attn_k", "self_attn.k_proj", h);
    rotate(q, config_.n_heads, position);
    rotate(k, config_.layers[0].n_kv_heads, position);
    keys.push_back(std::move(k));
    values.push_back(project("attn_v", "self_attn.v_proj", h));
    Vector attended(config_.q_dim(0));
    for (size_t head = 0; head < config_.n_heads; ++head) {
      const size_t kv = head / (config_.n_heads / config_.layers[0].n_kv_heads) * d;
      Vector scores(position + 1);
      double total = 0;
      for (size_t j = 0; j <= position; ++j) {
        for (size_t i = 0; i < d; ++i) scores[j] += q[head * d + i] * keys[j][kv + i];
        scores[j] = std::exp(scores[j] * static_cast<double>(config_.attention_scale));
        total += scores[j];
      }
      for (size_t j = 0; j <= position; ++j) {
        for (size_t i = 0; i < d; ++i) attended[head * d + i] += scores[j] / total * values[j][kv + i];
      }
    }
    add(x[position], project("attn_output", "self_attn.o_proj", attended));
  }
}

void NaiveTransformer::mlp(size_t layer, Matrix& x) const {
  const Vector weight = vector(name("ffn_norm.weight", "post_attention_layernorm.weight", layer));
  const Matrix w_gate = matrix(name("ffn_gate.weight", "mlp.gate_proj.weight", layer));
  const Matrix w_up = matrix(name("ffn_up.weight", "mlp.up_proj.weight", layer));
  const Matrix w_down = matrix(name("ffn_down.weight", "mlp.down_proj.weight", layer));
  for (Vector& row : x) {
    const Vector h = norm(row, weight);
    Vector gate = multiply(w_gate, h);
    const Vector up = multiply(w_up, h);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    add(row, multiply(w_down, gate));
  }
}

std::vector<std::vector<double>> NaiveTransformer::logits(TokenSpan tokens) const {
  const bool gguf = file_.container() == Container::kGguf;
  const Matrix embed = matrix(gguf ? "token_embd.weight" : "model.embed_tokens.weight");
  Matrix head = matrix(gguf ? "output.weight" : "lm_head.weight");
  if (head.empty()) head = embed;
  Matrix x;
  for (const TokenId token : tokens) x.push_back(embed[static_cast<size_t>(token)]);
  for (size_t layer = 0; layer < config_.n_layers; ++layer) {
    attention(layer, x);
    mlp(layer, x);
  }
  const Vector weight = vector(gguf ? "output_norm.weight" : "model.norm.weight");
  std::vector<std::vector<double>> rows;
  for (const Vector& row : x) rows.push_back(multiply(head, norm(row, weight)));
  return rows;
}

}  // namespace ibid
