// The names that files of an architecture have for tensors where these differ from the tensor table's. Data for the
// rows of model/architectures/architectures.cc; tensor_table.h explains '@', '#' and '|'.
#pragma once

#include <span>

#include "model/tensors/tensor_table.h"

namespace ibid {

std::span<const TensorName> gpt2_names();
std::span<const TensorName> gpt_neox_names();
std::span<const TensorName> falcon_names();
std::span<const TensorName> starcoder2_names();
std::span<const TensorName> apertus_names();
std::span<const TensorName> hunyuan_names();
// A norm of each head is a tensor.
std::span<const TensorName> stablelm_names();
// Norms before and after attention and MLP.
std::span<const TensorName> gemma_names();
std::span<const TensorName> glm4_names();
std::span<const TensorName> afmoe_names();
// The norm in front of the MLP is called one behind attention.
std::span<const TensorName> norm_before_mlp_names();
std::span<const TensorName> granite_hybrid_names();
std::span<const TensorName> llama4_names();

}  // namespace ibid
