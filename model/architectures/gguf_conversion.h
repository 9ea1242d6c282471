// Converts a Hugging Face checkpoint to GGUF as llama.cpp's converters do: metadata (gguf_keys.cc), tensors
// (gguf_tensors.cc), changes to recurrent layers (gguf_recurrent.cc), and the check that the written file is the same
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

// --- The tensors of a checkpoint, named and laid out as the converters write them for the architecture, so that the
// tensor table can read them. Rows of rotated heads are in adjacent pairs if the architecture has them so, norms
// include their 1, matrices are [out, in], experts are stacked, and tensors that the checkpoint has fused (q|k|v,
// gate|up) stay fused, in the order of the table. Matrix rows are read from the checkpoint on demand; vectors are read
// here.

struct GgufTensor {
  std::string name;
  DType dtype = DType::kF32;  // type to write by default: that of the view, or F32
  TensorView view;
  std::unique_ptr<RowSource> rows;  // rows of the view, if it is a matrix
  std::vector<float> values;        // data of the view otherwise
};

// All tensors of the model, in the order of the table. `config` is read_config(file)'s, `to` the row of the converted
// model. As llama.cpp requires, vectors, routers and positions are F32; so are types that GGUF lacks. Errors: those of
// find_source(); kNonFinite (a norm or bias that is not finite, named).
Result<std::vector<GgufTensor>> gguf_tensors(const ModelFile& file, const ModelConfig& config, const Architecture& to);

// --- The hyperparameters, under the keys of model/architectures/keys.h under which read_config() looks them up.

// Writes general.architecture and all keys below "<architecture>.". `config` is read_config(file)'s, `to` the row of
// the converted model. Omits values that GGUF has no key for; check_same_model() reports them. Errors: those of reading
// the keys of `file`.
Status write_gguf_keys(const ModelFile& file, const ModelConfig& config, const Architecture& to, GgufWriter& out);

// --- How the converters change models with recurrent layers, beyond the names in the tensor table: spellings by rule,
// fused tensors, shapes with a dimension of 1, and factors multiplied into the weights. Used by write_gguf_keys() and
// gguf_tensors().

// Index of the role's spelling in the tensor table that the model's recurrent rule uses.
size_t gguf_spelling(const ModelConfig& config, TensorRole role);

// Role of the fused tensor that contains `row` in GGUF if the checkpoint has it fused as well: of recurrent layers, and
// of queries with their gates. nullopt: not fused. `written` is the configuration of the GGUF.
std::optional<TensorRole> gguf_fused_role(const ModelConfig& written, const TensorRow& row);

// True for small matrices that GGUF always stores as floats.
bool is_gguf_floats(TensorRole role);

// The shape of such a matrix, or of a vector, of n_rows by n_cols numbers.
Shape gguf_float_shape(const ModelConfig& config, TensorRole role, size_t n_rows, size_t n_cols);

// The factor to multiply into the weights of a role if GGUF has factors within the weights
// (RecurrentFamily::gguf_folds_factors), and the configuration after that, without factors.
float folded_factor(const ModelConfig& config, TensorRole role);
// True if the role is a bias, added before such a factor is applied.
bool is_folded_bias(TensorRole role);
ModelConfig without_factors(const ModelConfig& config);

// --- The check.

// Ok if the model `got`, read from `path`, computes the same as `wanted`. Error: kUnsupported, naming the property that
// GGUF cannot represent.
Status check_same_model(const ModelConfig& wanted, const ModelConfig& got, const std::string& path);

}  // namespace ibid
