#include "apps/convert/tensor_encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "model/weights/finite_check.h"
#include "weights/block_formats.h"
#include "weights/block_quantize.h"

namespace ibid {

namespace {

constexpr float kLargestHalf = 65504.0f;
constexpr size_t kRowsAtOnce = 16;  // neighbours of a turned matrix share cache lines

size_t bytes_of_row(DType dtype, uint64_t n_cols) {
  const BlockSize block = dtype_block(dtype);
  return n_cols / block.values * block.bytes;
}

}  // namespace

// False where a value does not fit.
bool TensorEncoder::encode_share(const ConversionJob& job, uint64_t first, Range own) {
  const TensorView& tensor = job.tensor;
  const uint64_t n_cols = tensor.shape[tensor.shape.rank - 1];
  const size_t in_bytes = tensor.row_bytes(), out_bytes = bytes_of_row(job.dtype, n_cols);
  const float limit = job.dtype == DType::kF16 ? kLargestHalf : std::numeric_limits<float>::max();
  const bool same = job.dtype == tensor.dtype;
  std::vector<std::byte> read(tensor.source != nullptr && !same ? kRowsAtOnce * in_bytes : 0);
  std::vector<float> floats(same ? 0 : n_cols);
  std::array<uint64_t, kRowsAtOnce> indices;
  for (size_t r = own.begin; r < own.end; r += kRowsAtOnce) {
    const size_t n = std::min(kRowsAtOnce, own.end - r);
    std::byte* out = &out_[r * out_bytes];
    const std::byte* in = tensor.source != nullptr ? read.data() : &tensor.data[(first + r) * in_bytes];
    if (tensor.source != nullptr) {
      for (size_t i = 0; i < n; ++i) indices[i] = tensor.first_row + first + r + i;
      tensor.source->read_rows(std::span(indices).first(n), same ? out : read.data());
    }
    if (same && !all_finite(job.dtype, {out, n * out_bytes})) return false;
    if (same) continue;
    for (size_t i = 0; i < n; ++i) {
      dequantize_row(tensor.dtype, {in + i * in_bytes, in_bytes}, floats);
      // Not fabs(value) > limit, which NaN is not.
      if (!std::ranges::all_of(floats, [&](float value) { return std::fabs(value) <= limit; })) return false;
      quantize_row(job.dtype, floats, {out + i * out_bytes, out_bytes});
    }
  }
  return true;
}

Status TensorEncoder::not_finite(const ConversionJob& job) const {
  return {ErrorCode::kNonFinite, path_ + ": tensor " + job.name + " holds a value that is not finite" +
                                     first_bad_element(job.tensor)};
}

Result<std::span<const std::byte>> TensorEncoder::encode(const ConversionJob& job, uint64_t first,
                                                         uint64_t n) {
  const TensorView& tensor = job.tensor;
  const bool same = job.dtype == tensor.dtype;
  if (tensor.source == nullptr && same) {
    const size_t row_bytes = tensor.shape.rank == 0 ? tensor.data.size() : tensor.row_bytes();
    const std::span<const std::byte> rows = tensor.data.subspan(first * row_bytes, n * row_bytes);
    if (can_dequantize(job.dtype) && !all_finite(job.dtype, rows)) return not_finite(job);
    return rows;
  }
  out_.resize(n * bytes_of_row(job.dtype, tensor.shape[tensor.shape.rank - 1]));
  std::vector<char> fits(static_cast<size_t>(team_.size()), 1);
  team_.run([&](const Worker& worker) {
    if (!encode_share(job, first, worker.share(n))) fits[static_cast<size_t>(worker.index())] = 0;
  });
  if (std::ranges::find(fits, 0) == fits.end()) return std::span<const std::byte>(out_);
  if (same) return not_finite(job);
  return Status(ErrorCode::kNonFinite, path_ + ": tensor " + job.name + " holds a value that " +
                                           std::string(dtype_name(job.dtype)) +
                                           " cannot hold: not finite, or too large");
}

}  // namespace ibid
