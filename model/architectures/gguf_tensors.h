// The tensors of a Hugging Face checkpoint as GGUF has them. They are named and laid out as llama.cpp's converters
// write them for the architecture, so the tensor table reads what is written. Rows of heads that RoPE rotates are
// in adjacent pairs if the architecture wants them so, norms have their 1, matrices are [out, in], experts are
// stacked, and what is fused in the checkpoint (q|k|v, gate|up) stays fused, in the order of the table.
//
// Rows of matrices are read from the checkpoint when they are asked for; vectors are read here. The
// checkpoint must outlive the tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor_view.h"
#include "model/architectures/architecture.h"
#include "model/config/config.h"
#include "weights/model_file.h"

namespace ibid {

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

}  // namespace ibid
