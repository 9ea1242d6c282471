// Selects the type of each tensor of a converted model, as llama.cpp does for the same file type names
// (llama-quantize), so that our Q4_K_M equals theirs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor_view.h"

namespace ibid {

struct FileType {
  const char* name;      // "Q4_K_M"
  uint32_t gguf_number;  // general.file_type
  DType matrices;
  DType larger;  // of the head, and of the most sensitive matrices in _M mixtures
  bool mixture;  // half of the layers have attn_v and ffn_down of the larger type
};

// Finds a file type by name: "F16", "Q8_0", ... nullptr: unknown.
const FileType* find_file_type(std::string_view name);
// Finds the file type with this type of matrices.
const FileType* find_file_type(DType matrices);
std::vector<std::string> file_type_names();

// Properties of the model on which the types depend.
struct ModelShape {
  size_t n_layers = 0;
  bool has_head = false;  // has output.weight; else the embedding is the head
};

// Returns the type of a tensor, given its GGUF name. Vectors, norms, routers and tensors that are not weights keep
// theirs.
DType converted_type(const FileType& file_type, std::string_view name, const TensorView& tensor,
                     const ModelShape& model);

}  // namespace ibid
