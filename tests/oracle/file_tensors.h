// FileTensors: the weights of a model file in double, as the formulas of the papers want them.
//
// It shares two things with the product, and cannot catch their mistakes: the readers of weights/
// (bytes to floats, which tests/weights/ holds against other implementations), and the table of
// tensors' names (model/tensors/tensor_table.h), which the logits of Hugging Face hold. What
// is done to the tensors behind that is its own: cutting fused ones, turning transposed ones,
// stacked experts, norms stored without their 1. It puts no rows into another order: where a file
// keeps pairs as neighbours, the oracle turns neighbours.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/tensors/tensor_table.h"
#include "tests/oracle/numbers.h"
#include "weights/model_file.h"

namespace ibid::oracle {

class FileTensors {
 public:
  // Every weight is multiplied by 1 + noise u, u between -1 and 1.
  FileTensors(const ModelFile& file, const ModelConfig& config, double noise = 0)
      : file_(file), config_(config), noise_(noise) {}

  // [out, in]; empty where the file has no such tensor. copy: the expert's or the stream's number.
  Matrix matrix(TensorRole role, size_t layer = 0, size_t copy = 0) const;
  Vector vector(TensorRole role, size_t layer = 0, size_t copy = 0) const;
  // What the file has under the role's own names, which may be a tensor of several.
  Matrix as_stored(TensorRole role, size_t layer = 0) const { return own(role, layer, 0); }
  // The weight of a norm, with its 1.
  Vector norm(TensorRole role, size_t layer = 0) const;

 private:
  struct Stored {
    Shape shape;
    bool is_float = false;
    std::vector<double> values;
  };
  const Stored* find(const std::string& name) const;
  Matrix as_matrix(const Stored& stored, TensorRole role, const double* values) const;
  // What the file has under the role's own name; a vector is one column.
  Matrix own(TensorRole role, size_t layer, size_t copy) const;
  Matrix heads_side_by_side(const std::string& spelling, size_t layer) const;
  Matrix find_or_cut(TensorRole role, size_t layer, size_t copy) const;
  Matrix part_of_qkv(const Matrix& fused, TensorRole role, size_t layer) const;
  Matrix query_or_gate(const Matrix& fused, bool is_gate, size_t layer) const;
  Matrix half_of(const Matrix& gate_up, bool is_up, bool of_expert) const;
  std::string fill_in(const std::string& spelling, size_t layer, size_t copy) const;
  std::vector<std::string> spellings(TensorRole role) const;

  const ModelFile& file_;
  const ModelConfig& config_;
  const double noise_;
  mutable std::map<std::string, Stored> read_;
};

}  // namespace ibid::oracle
