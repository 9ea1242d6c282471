// Presents tensors that a safetensors checkpoint stores in several parts as one: packed integers with scales and zero
// points, one-byte floats with scales, blocks of 4-bit floats. The assembled tensor has the name that it has in the
// unquantised checkpoint, and a number format that represents its values exactly. Its rows are assembled when they are
// read (RowSource of base/tensor_view.h), so opening a file reads only the scales.
//   stored as                                                     presented as
//   NAME_blocks U8 [.., n, 16], NAME_scales U8 [.., n]            NAME_blocks MXFP4 [.., 32 n]   (gpt-oss)
//   NAME F8 [out, in], NAME_scale_inv or NAME_scale               NAME F8 with scales: one per tensor, per row, or
//                                                                 per block of config's weight_block_size
//   NAME F8 without a scale                                       NAME F16
//   NAME.qweight, .qzeros, .scales, .g_idx   (GPTQ, 4 bits)       NAME.weight Q4_0 if all zero points are 8, else Q5_0
//   NAME.qweight, .qzeros, .scales           (AWQ, 4 bits)        NAME.weight likewise: code - zero point is -16..15
//   NAME.weight_packed, .weight_scale, .weight_zero_point         NAME.weight likewise (compressed-tensors)
// Values that no format represents exactly are F32: the product of code and scale, rounded as the stored format defines
// it. This happens if scales are not FP16 numbers, rows or groups are not multiples of 32, or groups of columns are out
// of order (g_idx).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor_view.h"
#include "weights/model_json.h"

namespace ibid {

// The tensors of a checkpoint as stored in its files.
struct StoredTensors {
  const std::vector<std::string>* names;
  std::function<const TensorView*(std::string_view)> find;  // returns nullptr if the tensor is absent
  std::string_view path;                                    // path for messages
};

struct AssembledTensor {
  std::string name;
  TensorView view;
  std::unique_ptr<RowSource> source;  // owns view.source
};

// The content of config.json's quantization_config. Errors of reading it: kUnsupported for an unsupported method,
// naming it; kBadNumber.
struct QuantizationConfig {
  std::string method;            // "gptq", "awq", "compressed-tensors", "fp8", "mxfp4"; empty: not quantised
  bool zeros_minus_one = false;  // GPTQ's first version stores each zero point minus one
  uint64_t block_rows = 128, block_cols = 128;  // rows and columns of a block of one-byte floats that share a scale
};
Result<QuantizationConfig> read_quantization_config(const JsonValues& config, std::string_view path);

// Assembles all tensors of `stored` that have parts. Errors, with the tensor's name: kMissingTensor (a part), kBadShape
// and kBadType (parts that do not match), kBadNumber (g_idx out of range), kNonFinite (a scale), kUnsupported.
Result<std::vector<AssembledTensor>> make_tensors(const StoredTensors& stored, const QuantizationConfig& config);

// split_kv_rows.cc: joins the two matrices in which GGUF stores the expansion of keys and values in latent attention,
// for every layer that has both. Errors, with the tensor's name: kBadShape (they do not match), kUnsupported (a type
// without a decoder).
Result<std::vector<AssembledTensor>> make_expanding_tensors(const StoredTensors& stored);

// --- packed_int4_rows.cc: matrices of 4-bit integers, eight per word, with a scale and a zero point for each group of
// a row: GPTQ, AWQ and compressed-tensors.

// The order of eight integers in a 32-bit word, and the shapes of words, zero points and scales:
//   kGptq        [in / 8, out]   [groups, out / 8]   [groups, out]
//   kAwq         [in, out / 8]   [groups, out / 8]   [groups, out]   in the order 0 2 4 6 1 3 5 7
//   kCompressed  [out, in / 8]   [out / 8, groups]   [out, groups]
enum class Int4Packing { kGptq, kAwq, kCompressed };

// The parts of one matrix; absent parts are null.
struct Int4Parts {
  const TensorView* words = nullptr;
  const TensorView* zeros = nullptr;
  const TensorView* scales = nullptr;
  const TensorView* group_of_column = nullptr;  // g_idx: the group to which each column belongs
};

// Makes the tensor called `name` from the parts. Errors: kMissingTensor, kBadShape, kBadType, kBadNumber, kNonFinite.
Result<AssembledTensor> make_int4(const std::string& name, Int4Packing packing, const Int4Parts& parts,
                                  const QuantizationConfig& config, std::string_view path);

}  // namespace ibid
