// From a Hugging Face checkpoint to GGUF, as llama.cpp's converters do it: metadata (gguf_keys.cc), tensors
// (gguf_tensors.cc), what both do to recurrent layers (gguf_recurrent.cc), and the check that what was written is the
// same model (same_model.cc). Pure functions of the checkpoint, which must outlive the tensors.
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

// --- The tensors of a checkpoint as GGUF has them. They are named and laid out as the converters write them for the
// architecture, so the tensor table reads what is written. Rows of heads that RoPE rotates are in adjacent pairs if the
// architecture wants them so, norms have their 1, matrices are [out, in], experts are stacked, and what is fused in the
// checkpoint (q|k|v, gate|up) stays fused, in the order of the table. Rows of matrices are read from the checkpoint
// when they are asked for; vectors are read here.

struct GgufTensor {
  std::string name;
  DType dtype = DType::kF32;  // to be written, where nothing else is asked for: the view's, or F32
  TensorView view;
  std::unique_ptr<RowSource> rows;  // of the view, or
  std::vector<float> values;        // its data
};

// All tensors of the model, in the order of the table. `config` is read_config(file)'s, `to` the row that the
// converted model will have. Vectors, routers and positions are F32, as llama.cpp wants them, and so is what
// GGUF has no type for. Errors: those of find_source(); kNonFinite (a norm or bias that is not finite,
// named).
Result<std::vector<GgufTensor>> gguf_tensors(const ModelFile& file, const ModelConfig& config,
                                             const Architecture& to);

// --- The hyperparameters, under the keys of model/architectures/keys.h under which read_config() looks them up.

// Writes general.architecture and everything behind "<architecture>.". `config` is read_config(file)'s, `to`
// the row that the converted model will have. What GGUF has no key for is left out: check_same_model() finds
// it. Errors: those of reading the keys of `file`.
Status write_gguf_keys(const ModelFile& file, const ModelConfig& config, const Architecture& to,
                       GgufWriter& out);

// --- What the converters do to models with recurrent layers, beyond the names in the tensor table: which spelling a
// rule has, what stays fused, shapes with a dimension of 1, and factors that go into the weights. A part of
// write_gguf_keys() and gguf_tensors().

// Which of a role's spellings in the tensor table a model's recurrent rule has.
size_t gguf_spelling(const ModelConfig& config, TensorRole role);

// The tensor of several that holds `row` in GGUF where a checkpoint has one, too: of those of recurrent layers and of
// queries beside their gates. Nothing: the row has a tensor of its own. `written` is the configuration of the GGUF.
std::optional<TensorRole> gguf_fused_role(const ModelConfig& written, const TensorRow& row);

// Whether a matrix is few numbers, which are floats in GGUF whatever the others are.
bool is_gguf_floats(TensorRole role);

// The shape of such a matrix, or of a vector, of n_rows by n_cols numbers.
Shape gguf_float_shape(const ModelConfig& config, TensorRole role, size_t n_rows, size_t n_cols);

// The factor that the weights of a role are multiplied by where GGUF has factors within the weights
// (RecurrentFamily::gguf_folds_factors), and the configuration of what is left: it has none.
float folded_factor(const ModelConfig& config, TensorRole role);
// True if the role is a bias that these factors are applied to after it is added.
bool is_folded_bias(TensorRole role);
ModelConfig without_factors(const ModelConfig& config);

// --- The check.

// Whether a model of `got`, read from `path`, computes what one of `wanted` does. Error: kUnsupported, naming
// what GGUF cannot say of it.
Status check_same_model(const ModelConfig& wanted, const ModelConfig& got, const std::string& path);

}  // namespace ibid
