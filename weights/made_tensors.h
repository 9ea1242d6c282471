// Presents as one tensor what a safetensors checkpoint keeps in several parts: packed integers with their scales
// and zero points, floats of a byte with theirs, blocks of four-bit floats. The tensor has the name that the
// unquantised checkpoint has, and a number format that holds its values exactly. Its rows are put together when
// they are read (base/tensor_view.h, RowSource), so opening reads scales only.
//
//   kept as                                                       presented as
//   NAME_blocks U8 [.., n, 16], NAME_scales U8 [.., n]            NAME_blocks MXFP4 [.., 32 n]   (gpt-oss)
//   NAME F8 [out, in], NAME_scale_inv or NAME_scale               NAME F8 with scales: one for all, for each row, or
//                                                                 for each block of config's weight_block_size
//   NAME F8 without a scale                                       NAME F16
//   NAME.qweight, .qzeros, .scales, .g_idx   (GPTQ, 4 bits)       NAME.weight Q4_0 where all zero points are 8, Q5_0
//   NAME.qweight, .qzeros, .scales           (AWQ, 4 bits)        else: q - z is -16..15
//   NAME.weight_packed, .weight_scale, .weight_zero_point         NAME.weight likewise (compressed-tensors)
//
// If no format holds the values, they are F32, rounded as the format's own product is. That happens when scales are
// no halves, when rows or groups are no multiple of 32, and when the groups of columns lie out of order (g_idx).
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

// The tensors as the files have them.
struct StoredTensors {
  const std::vector<std::string>* names;
  std::function<const TensorView*(std::string_view)> find;  // nullptr: not there
  std::string_view path;                                    // for messages
};

struct MadeTensor {
  std::string name;
  TensorView view;
  std::unique_ptr<RowSource> source;  // of the view
};

// The content of config.json's quantization_config. Errors: kUnsupported for a method that is not read, by its
// name.
struct QuantizationConfig {
  std::string method;          // "gptq", "awq", "compressed-tensors", "fp8", "mxfp4"; empty: none
  bool zeros_are_less_one = false;   // GPTQ's first version stores zero points less one
  uint64_t block_rows = 128, block_cols = 128;  // of F8
};
Result<QuantizationConfig> read_quantization_config(const JsonValues& config, std::string_view path);

// All tensors of `stored` that have to be made. Errors, naming the tensor: kMissingTensor (a part), kBadShape and
// kBadType (parts that do not fit together), kBadNumber (g_idx out of range), kNonFinite (a scale that is not finite),
// kUnsupported.
Result<std::vector<MadeTensor>> make_tensors(const StoredTensors& stored, const QuantizationConfig& config);

// split_kv_rows.cc: makes one matrix of the two that GGUF keeps for latent attention, in every layer that has both.
// Errors, naming the tensor: kBadShape (they do not fit together), kUnsupported (a type that is not decoded).
Result<std::vector<MadeTensor>> make_expanding_tensors(const StoredTensors& stored);

// --- packed_int4_rows.cc: matrices of integers of four bits, eight in a word, with a scale and a zero point for each
// group of a row: GPTQ, AWQ and compressed-tensors.

// How eight integers lie in a word of 32 bits. The shapes of words, zero points and scales:
//   kGptq        [in / 8, out]   [groups, out / 8]   [groups, out]
//   kAwq         [in, out / 8]   [groups, out / 8]   [groups, out]   in the order 0 2 4 6 1 3 5 7
//   kCompressed  [out, in / 8]   [out / 8, groups]   [out, groups]
enum class Int4Packing { kGptq, kAwq, kCompressed };

// The parts of one matrix; those that are not there are nullptr.
struct Int4Parts {
  const TensorView* words = nullptr;
  const TensorView* zeros = nullptr;
  const TensorView* scales = nullptr;
  const TensorView* group_of_column = nullptr;  // g_idx
};

// `name` is the tensor that is made. Errors: kMissingTensor, kBadShape, kBadType, kBadNumber, kNonFinite.
Result<MadeTensor> make_int4(const std::string& name, Int4Packing packing, const Int4Parts& parts,
                             const QuantizationConfig& config, std::string_view path);

}  // namespace ibid
