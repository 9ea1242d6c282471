// Converts a Hugging Face checkpoint to GGUF as llama.cpp's converters do: metadata (gguf_keys.cc), tensors
// (gguf_tensors.cc), changes to recurrent layers (gguf_recurrent.cc), and a check that the written file is the same
// model (same_model.cc). Pure functions of the checkpoint, which must outlive the tensors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor_view.h"
#include "model/architectures/architecture.h"
#include "model/config/config.h"
#include "model/tensors/tensor_table.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {

// --- The tensors of a checkpoint, with the names and layouts that the converters write for the architecture, so that
// the tensor table finds them. Rows of rotated heads are in adjacent pairs if that is the architecture's order in GGUF,
// norm weights include the added 1, matrices are [out, in], experts are stacked, and tensors that the checkpoint has
// fused (q|k|v, gate|up) stay fused, in the order of the table. Matrix rows are read from the checkpoint on demand;
// vectors are read at once.

struct GgufTensor {
  std::string name;
  DType dtype = DType::kF32;  // default type to write: the type of the view, or F32
  TensorView view;
  std::unique_ptr<RowSource> rows;  // owns the rows that `view` refers to, if it is a matrix
  std::vector<float> values;        // owns the numbers that `view` refers to, if it is a vector
};

// Returns all tensors of the model, in the order of the table. `config` is the result of read_config(file), `to` the
// architecture of the converted model. As llama.cpp requires, vectors, routers and positions are F32, and so are types
// that GGUF lacks. Errors: those of find_source(); kNonFinite (a norm or bias that is not finite, named).
Result<std::vector<GgufTensor>> gguf_tensors(const ModelFile& file, const ModelConfig& config, const Architecture& to);

// --- The hyperparameters, under the keys (model/architectures/keys.h) where read_config() looks for them.

// Writes general.architecture and all keys below "<architecture>.". `config` is the result of read_config(file), `to`
// the architecture of the converted model. Omits values for which GGUF has no key; check_same_model() reports those.
// Errors: those of reading the keys of `file`.
Status write_gguf_keys(const ModelFile& file, const ModelConfig& config, const Architecture& to, GgufWriter& out);

// --- How the converters change models with recurrent layers, in addition to the names in the tensor table: tensor
// names that depend on the recurrent rule, fused tensors, shapes with a dimension of 1, and factors multiplied into the
// weights. Used by write_gguf_keys() and gguf_tensors().

// The tensor table has several GGUF names (spellings) for some roles. Returns the index of the one that a model with
// this recurrent rule uses.
size_t gguf_spelling(const ModelConfig& config, TensorRole role);

// Returns the role of the fused GGUF tensor that contains `row`, if the checkpoint has these parts fused too: parts of
// a recurrent layer, or queries with their gates. nullopt: not fused. `written` is the configuration of the GGUF.
std::optional<TensorRole> gguf_fused_role(const ModelConfig& written, const TensorRow& row);

// True for small matrices that GGUF always stores as floats.
bool is_gguf_floats(TensorRole role);

// Returns the shape in GGUF of a vector, or of a matrix with is_gguf_floats(), of n_rows by n_cols numbers.
Shape gguf_float_shape(const ModelConfig& config, TensorRole role, size_t n_rows, size_t n_cols);

// Some GGUF files have the model's factors multiplied into the weights (RecurrentFamily::gguf_folds_factors).
// folded_factor() returns the factor for the weights of a role; without_factors() returns `config` without factors.
float folded_factor(const ModelConfig& config, TensorRole role);
// True if the role is a bias that the model adds before it applies the folded factor.
bool is_folded_bias(TensorRole role);
ModelConfig without_factors(const ModelConfig& config);

// --- The check.

// Ok if the model `got`, read from `path`, computes the same as `wanted`. Error: kUnsupported, naming the property that
// GGUF cannot represent.
Status check_same_model(const ModelConfig& wanted, const ModelConfig& got, const std::string& path);

}  // namespace ibid
