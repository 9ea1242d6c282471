// Which type each tensor of a converted model gets: llama.cpp's choices for the files that people know by the
// same names (llama-quantize), so that a Q4_K_M of ours is a Q4_K_M.
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
  DType larger;  // of the head, and of what matters most in the _M mixtures
  bool mixture;  // half of attn_v and ffn_down are of the larger type
};

// nullptr: there is no such type. "F16", "Q8_0", ...
const FileType* find_file_type(std::string_view name);
// The one whose matrices are of a type.
const FileType* find_file_type(DType matrices);
std::vector<std::string> file_type_names();

// The properties of the model that the choice depends on, besides the tensor itself.
struct ModelShape {
  size_t n_layers = 0;
  bool has_head = false;  // an output.weight of its own; else the embedding is the head
};

// The type of a tensor under its GGUF name. Vectors, norms, routers and what is no weight keep the type they
// have.
DType converted_type(const FileType& file_type, std::string_view name, const TensorView& tensor,
                     const ModelShape& model);

}  // namespace ibid
