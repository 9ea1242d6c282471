// The bytes and operations that one token costs a model, read off its file. They are the numerators of GB/s and
// GOP/s.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "model/config/config.h"
#include "model/config/model_options.h"
#include "weights/model_file.h"

namespace ibid {

struct ModelWork {
  size_t weights_bytes = 0;          // packed weights that every pass reads: all but an untied embedding
  size_t kv_bytes_per_position = 0;  // of one layer, in the chosen type
  std::vector<LayerConfig> layers;
  double operations_per_token = 0;  // linear layers, two per multiply-add; attention is not counted
  double attention_operations_per_position = 0;  // of a token, for each position that it attends to; all layers
  double operations_of_head = 0;    // for every row that wants logits
  bool int8 = false;                // whether the operations are int8

  // Keys and values that one token reads which stands behind `position` others.
  size_t kv_bytes_at(size_t position) const;
};

// Errors: those of plan_memory() and the tensor table.
Result<ModelWork> model_work(const ModelFile& file, const ModelConfig& config, const ModelOptions& options);

}  // namespace ibid
