// Tensors of a file that no row of the tensor table reads: some are known to be harmless.
// Ignoring a tensor of a layer (a bias, a norm, a scale) would change the model's results. So an unknown tensor of a
// layer, or of the model outside of its layers, is an error that names it. Unknown tensors of other parts (vision
// towers, layers for multi-token prediction) are ignored.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/config/config.h"

namespace ibid {

class ModelFile;

struct UnusedTensor {
  std::string name;
  const char* reason;  // why ignoring the tensor is harmless; nullptr: unknown
  bool of_model;       // the tensor belongs to one of the model's layers, or to the model outside of its layers
};

// Returns the unused tensors in the file's order. REQUIRES: plan_weights() succeeded; else tensors of wrong shapes
// count as unused.
std::vector<UnusedTensor> unused_tensors(const ModelFile& file, const ModelConfig& config);

// Refuses a file with unknown tensors of the model. Error: kUnsupported, naming the file, the architecture and the
// first of them.
Status refuse_unknown_tensors(const ModelFile& file, const ModelConfig& config);

}  // namespace ibid
