// FileTensors: the weights of a model file in double, in the form of the papers' formulas.
//
// Two parts are shared with the product, so this does not find their errors: the readers of weights/ (bytes to floats,
// compared with other implementations in tests/weights/), and the table of tensor names (model/tensors/tensor_table.h,
// verified by the logits of Hugging Face). All later processing is written anew: splitting fused tensors, transposing,
// stacked experts, norms stored without their 1. It never reorders rows: the oracle rotates pairs as they are stored.
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
  // noise: multiplies every weight by 1 + noise u, u in [-1, 1].
  FileTensors(const ModelFile& file, const ModelConfig& config, double noise = 0)
      : file_(file), config_(config), noise_(noise) {}

  // [out, in]; empty if the file has no such tensor. copy: number of the expert or stream.
  Matrix matrix(TensorRole role, size_t layer = 0, size_t copy = 0) const;
  Vector vector(TensorRole role, size_t layer = 0, size_t copy = 0) const;
  // The tensor with the role's own name, which may be a fused tensor.
  Matrix as_stored(TensorRole role, size_t layer = 0) const { return own(role, layer, 0); }
  // The weight of a norm, including its 1.
  Vector norm(TensorRole role, size_t layer = 0) const;

 private:
  struct Stored {
    Shape shape;
    bool is_float = false;
    std::vector<double> values;
  };
  const Stored* find(const std::string& name) const;
  Matrix as_matrix(const Stored& stored, TensorRole role, const double* values) const;
  // The tensor with the role's own name; a vector is returned as one column.
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
