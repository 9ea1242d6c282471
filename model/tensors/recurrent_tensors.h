// The rows of the tensor table (model/tensors/tensor_table.h) that recurrent layers have, and where their parts
// stand in tensors of several.
#pragma once

#include <optional>
#include <span>

#include "model/tensors/head_tiles.h"
#include "model/tensors/tensor_table.h"

namespace ibid {

std::span<const TensorRow> recurrent_tensors();

// The rows of `row` within the tensor that holds it; nothing: it is no part of a recurrent layer's tensor.
std::optional<RowOrder> recurrent_part_order(const ModelConfig& config, const TensorRow& row);

// The heads of values that a role has in its rows and columns, of a file that does not have them as memory has
// (RecurrentMixer::tiled_heads).
TiledHeads tiled_heads(const ModelConfig& config, TensorRole role);

}  // namespace ibid
