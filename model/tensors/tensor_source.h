// Finds the weights of a role (model/tensors/tensor_table.h) in one file: under which name, in which tensor of
// several, in which order of rows. Stateless; what is found refers to the file.
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

// The first spelling of `role` in this file; `layer` and `copy` are ignored for tensors that exist once.
std::string tensor_name(const ModelFile& file, const ModelConfig& config, TensorRole role, size_t layer = 0,
                        size_t copy = 0);

// All names of `role` in files of a GGUF architecture that has these names of its own, the first spelling first.
std::vector<std::string> gguf_names(std::span<const TensorName> names, TensorRole role, size_t layer);

// Where the weights of a role are in a file: rows source_row(0 .. n_rows) of `tensor`, or its columns.
struct TensorSource {
  std::string name;        // of the tensor in the file
  TensorView tensor;       // for a part that is whole rows of a fused tensor, those alone
  size_t n_rows = 0, n_cols = 0;
  RowOrder order;
  TiledHeads tiles;        // heads that change places, before `order` holds
  bool transposed = false; // `tensor` is [n_cols, rows]
  std::vector<TensorView> parts;  // of a vector that the file has head by head; then `tensor` is the first
  bool of_fused = false;   // it is a part of the tensor of several (TensorRow::part_of)
  bool found() const { return n_rows != 0; }
  size_t source_row(size_t row) const { return order.source_row(tiles.rows.source(row)); }
};

// Where the rows of `row` stand in the tensor that holds it with others (TensorRow::part_of), in a file that
// `config` describes.
RowOrder order_in_fused(const ModelConfig& config, const TensorRow& row, size_t layer);

// Finds the tensor, checks its shape against the configuration; !found() when the model does not have it.
// Errors: kMissingTensor, kBadShape (file, tensor, got, wanted), kUnsupported (a type we cannot decode).
Result<TensorSource> find_source(const ModelFile& file, const ModelConfig& config, const TensorRow& row,
                                 size_t layer = 0, size_t copy = 0);

}  // namespace ibid
