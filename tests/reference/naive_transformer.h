// NaiveTransformer: the decoder-only transformer as a paper writes it, in double, with nothing clever: no
// cache, no packing, no threads, every position against every earlier one. It reads the model file by
// itself, so that a mistake in our binding or layout cannot hide in both.
#pragma once

#include <cstddef>
#include <vector>

#include "base/types.h"
#include "model/architecture/config.h"
#include "weights/model_file.h"

namespace ibid {

class NaiveTransformer {
 public:
  NaiveTransformer(const ModelFile& file, ModelConfig config) : file_(file), config_(std::move(config)) {}

  // Logits after every token. [tokens.size()][vocab_size]
  std::vector<std::vector<double>> logits(TokenSpan tokens) const;

 private:
  using Vector = std::vector<double>;
  using Matrix = std::vector<Vector>;

  Vector vector(const std::string& name) const;
  Matrix matrix(const std::string& name) const;
  std::string name(const char* gguf, const char* hf, size_t layer) const;
  Vector norm(const Vector& x, const Vector& weight) const;
  void rotate(Vector& heads, size_t n_heads, size_t position) const;
  void attention(size_t layer, Matrix& x) const;
  void mlp(size_t layer, Matrix& x) const;

  const ModelFile& file_;
  const ModelConfig config_;
};

}  // namespace ibid
