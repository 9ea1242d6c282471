// What llama.cpp's converters do to models with recurrent layers, beyond the names in the tensor table: which spelling
// a rule has, what stays fused, shapes with a dimension of 1, and factors that go into the weights. A part of
// write_gguf_keys() and gguf_tensors().
#pragma once

#include <optional>

#include "base/tensor_view.h"
#include "model/architectures/architecture.h"
#include "model/config/config.h"
#include "model/tensors/tensor_table.h"

namespace ibid {

// Which of a role's spellings in the tensor table a model's recurrent rule has.
size_t gguf_spelling(const ModelConfig& config, TensorRole role);

// The tensor of several that holds `row` in GGUF where a checkpoint has one, too: of those of recurrent layers and of
// queries beside their gates. Nothing: the row has a tensor of its own. `written` is the configuration of the GGUF.
std::optional<TensorRole> gguf_fused_role(const ModelConfig& written, const TensorRow& row);

// Whether a matrix is few numbers, which are floats in GGUF whatever the others are.
bool is_gguf_floats(TensorRole role);

// The shape of such a matrix, or of a vector, of n_rows by n_cols numbers.
Shape gguf_float_shape(const ModelConfig& config, TensorRole role, size_t n_rows, size_t n_cols);

// What the weights of a role are multiplied by where GGUF has factors within the weights
// (RecurrentFamily::gguf_folds_factors), and the configuration of what is left: it has none.
float folded_factor(const ModelConfig& config, TensorRole role);
// True if the role is a bias that these factors are applied to after it is added.
bool is_folded_bias(TensorRole role);
ModelConfig without_factors(const ModelConfig& config);

}  // namespace ibid
