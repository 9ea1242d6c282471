// Selects the type of each tensor of a converted model. For each file type, for example Q4_K_M, the types are those
// that llama-quantize (llama.cpp) selects.
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
  uint32_t gguf_number;  // the value of the GGUF key general.file_type
  DType matrices;
  DType larger;  // type of the head, and in mixtures (_M) of the most sensitive matrices
  bool mixture;  // true: in half of the layers attn_v and ffn_down have the larger type
};

// Finds a file type by name: "F16", "Q8_0", ... nullptr: unknown.
const FileType* find_file_type(std::string_view name);
// Finds the file type whose matrices have this type.
const FileType* find_file_type(DType matrices);
std::vector<std::string> file_type_names();

// Properties of the model on which the types depend.
struct ModelShape {
  size_t n_layers = 0;
  bool has_head = false;  // the model has output.weight; false: the embedding serves as head
};

// Returns the type of a tensor, given its GGUF name. Vectors, norms, routers and tensors that are not weights keep
// their type.
DType converted_type(const FileType& file_type, std::string_view name, const TensorView& tensor,
                     const ModelShape& model);

}  // namespace ibid
