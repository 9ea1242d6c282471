// Matrices of integers of four bits, eight in a word, with a scale and a zero point for each group of a row: GPTQ, AWQ
// and compressed-tensors.
#pragma once

#include "weights/made_tensors.h"

namespace ibid {

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
