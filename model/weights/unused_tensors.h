// Tensors of a file that no row of the tensor table reads: those that are known to be harmless, and the others.
//
// To pass over a tensor of a layer (a bias, a norm, a scale) would change what the model computes. So an unknown
// tensor of a layer that the model has, or of what stands before and behind the layers, is an error that names it.
// A language model has no use for anything else (towers that see, layers that guess further tokens), and leaves it
// out.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/config/config.h"

namespace ibid {

class ModelFile;

struct UnusedTensor {
  std::string name;
  const char* reason;  // why it is harmless; nullptr: nobody knows what it is for
  bool of_model;       // of a layer that the model has, or of what stands before and behind them
};

// In the file's order. REQUIRES: plan_weights() has found the model's tensors in order: one of a wrong
// shape counts as not used.
std::vector<UnusedTensor> unused_tensors(const ModelFile& file, const ModelConfig& config);

// Error: kUnsupported, naming the file, the architecture and the first unknown tensor of the model.
Status refuse_unknown_tensors(const ModelFile& file, const ModelConfig& config);

}  // namespace ibid
