// Refuses weights that are not finite, by reading the file without keeping its data. Loading makes the same check while
// it packs; both refuse the same files with the same messages.
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

// Reads a vector or small matrix in the order in which the model uses it: out[i] is number i of the table's row.
// REQUIRES: source.found(); out.size() is n_rows n_cols. Error: kNonFinite, naming the tensor and the element.
Status read_vector(const ModelFile& file, const ModelConfig& config, const TensorRow& row, const TensorSource& source,
                   std::span<float> out);

// Index of the first value of a tensor that is not finite, as " at 5" or " at [3, 17]"; empty if all are finite.
// REQUIRES: can_dequantize(tensor.dtype).
std::string first_bad_element(const TensorView& tensor);

// Reads every tensor that the model uses once, on all threads; the memory needed does not grow with the model. Calls
// progress(bytes read) repeatedly from one thread. Errors: kNonFinite, naming the file, the first such tensor in
// loading order, and its first bad element; those of find_source(); kChangedOnDisk.
Status check_finite_weights(const ModelFile& file, const ModelConfig& config, ThreadTeam& team,
                            const std::function<void(uint64_t)>& progress = {});

// True if all values are finite. Tests their bits, and compares no floats.
bool all_finite(std::span<const float> values);

// True if dequantize_row() would return only finite numbers for this stored row. Most block types need no decoding for
// this. REQUIRES: can_dequantize(dtype); `row` is whole blocks.
bool all_finite(DType dtype, std::span<const std::byte> row);

}  // namespace ibid
