// Finds the weights of a role (model/tensors/tensor_table.h) in one file: tensor name, part of a fused tensor, row
// order. Stateless; results refer to the file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor_view.h"
#include "kernels/layout/panel.h"
#include "model/config/config.h"
#include "model/tensors/tensor_table.h"
#include "weights/model_file.h"

namespace ibid {

// Returns the name of `role` in this file, by the first spelling. Ignores `layer` and `copy` of tensors that exist
// once.
std::string tensor_name(const ModelFile& file, const ModelConfig& config, TensorRole role, size_t layer = 0,
                        size_t copy = 0);

// Returns all GGUF names of `role` for an architecture whose own names are `names`, the first spelling first.
std::vector<std::string> gguf_names(std::span<const TensorName> names, TensorRole role, size_t layer);

// The place of a role's weights in a file: rows source_row(0) to source_row(n_rows - 1) of `tensor`, or these columns
// if it is transposed.
struct TensorSource {
  std::string name;   // name of the tensor in the file
  TensorView tensor;  // if the weights are whole rows of a fused tensor, only these rows
  size_t n_rows = 0, n_cols = 0;
  RowOrder order;
  TiledHeads tiles;               // reordering of heads, applied before `order`
  bool transposed = false;        // `tensor` is [n_cols, rows]
  std::vector<TensorView> parts;  // for a vector stored per head: the tensors of all heads; `tensor` is the first
  bool of_fused = false;          // `tensor` is a part of a fused tensor (TensorRow::part_of)
  bool found() const { return n_rows != 0; }
  size_t source_row(size_t row) const { return order.source_row(tiles.rows.source(row)); }
};

// Returns the order in which the fused tensor (TensorRow::part_of) has the rows of the tensor that `row` describes.
RowOrder order_in_fused(const ModelConfig& config, const TensorRow& row, size_t layer);

// Finds the tensor and checks its shape against the configuration; !found() if the model does not have it.
// Errors: kMissingTensor, kBadShape (file, tensor, got, wanted), kUnsupported (type cannot be decoded).
Result<TensorSource> find_source(const ModelFile& file, const ModelConfig& config, const TensorRow& row,
                                 size_t layer = 0, size_t copy = 0);

}  // namespace ibid
