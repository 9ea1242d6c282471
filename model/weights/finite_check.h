// Refuses weights that are not finite. Loading does so while it packs; here the file is read and nothing is kept. Both
// refuse the same files with the same words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/parallel.h"
#include "base/result.h"
#include "model/config/config.h"
#include "model/tensors/tensor_source.h"
#include "model/tensors/tensor_table.h"
#include "weights/model_file.h"

namespace ibid {

// The numbers of a vector, or of a matrix of few numbers, as the model uses them: out[i] is number i of the row of the
// table. REQUIRES: source.found(); out.size() is n_rows n_cols. Error: kNonFinite, naming the tensor and the element.
Status read_vector(const ModelFile& file, const ModelConfig& config, const TensorRow& row, const TensorSource& source,
                   std::span<float> out);

// The place of the first value of a tensor that is not finite, as " at 5" or " at [3, 17]"; empty where all are.
// REQUIRES: can_dequantize(tensor.dtype).
std::string first_bad_element(const TensorView& tensor);

// Reads every tensor that the model uses, once, on all threads; memory does not grow with the model.
// progress(bytes read) is called from one thread, now and then. Errors: kNonFinite, naming the file, the first such
// tensor in the order of loading, and its first element; those of find_source(); kChangedOnDisk.
Status check_finite_weights(const ModelFile& file, const ModelConfig& config, ThreadTeam& team,
                            const std::function<void(uint64_t)>& progress = {});

// Checks whether weights are finite, by their bits: without comparing a NaN, and without decoding blocks.
bool all_finite(std::span<const float> values);

// True if dequantize_row() makes finite numbers alone of a row as its file has it.
// REQUIRES: can_dequantize(dtype); row is whole blocks.
bool all_finite(DType dtype, std::span<const std::byte> row);

}  // namespace ibid
