#include "kernels/linear.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/blas.h"

namespace ibid {

namespace {

constexpr size_t kTileColumns = kMaxLinearPanels * kPanelRows;

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
size_t padded_rows(size_t n) { return (n + kRowGroup - 1) / kRowGroup * kRowGroup; }

}  // namespace

const char* numerics_name(Numerics numerics) {
  switch (numerics) {
    case Numerics::kReference: return "reference";
    case Numerics::kExact: return "exact";
    case Numerics::kFast: return "fast";
  }
  return "?";
}

size_t QuantizedRows::bytes(size_t n_rows, size_t n_cols) {
  const QuantizedRows end = from(nullptr, n_rows, n_cols);
  return static_cast<size_t>(reinterpret_cast<uintptr_t>(end.offset16)) +
         aligned(2 * end.at(padded_rows(n_rows), 0) * sizeof(int32_t));
}

QuantizedRows QuantizedRows::from(std::byte* memory, size_t n_rows, size_t n_cols) {
  CHECK_EQ(n_cols % kQuantBlock, size_t{0});
  QuantizedRows rows;
  rows.n_rows = n_rows;
  rows.n_cols = n_cols;
  auto address = reinterpret_cast<uintptr_t>(memory);
  const auto take = [&address](size_t bytes) {
    const uintptr_t start = address;
    address += aligned(bytes);
    return start;
  };
  const size_t n_blocks = rows.at(padded_rows(n_rows), 0);
  rows.q = reinterpret_cast<int8_t*>(take(n_blocks * kQuantBlock));
  rows.scale = reinterpret_cast<float*>(take(n_blocks * sizeof(float)));
  rows.scaled_sum = reinterpret_cast<float*>(take(n_blocks * sizeof(float)));
  rows.offset32 = reinterpret_cast<int32_t*>(take(n_blocks * sizeof(int32_t)));
  rows.offset16 = reinterpret_cast<int32_t*>(take(2 * n_blocks * sizeof(int32_t)));
  return rows;
}

size_t linear_scratch_bytes(size_t max_n_cols) {
  // A tile's float accumulators, and its panels unpacked: per row of W a byte per code and a float scale per
  // 16 columns (or a scale and a min per 32).
  const size_t cols = (max_n_cols + kChunkCols - 1) / kChunkCols * kChunkCols;
  const size_t unpacked = kTileColumns * (kMaxLinearRows * sizeof(float) + cols + cols / 16 * sizeof(float));
  return std::max(unpacked, blas_scratch_bytes(max_n_cols));
}

void linear(const Worker& worker, const LinearContext& context, const PackedMatrix& w, const LinearInput& x,
            float* y, size_t y_stride) {
  // Whole tiles per thread, unless there are too few of them to be balanced.
  const bool many = w.n_panels() >= 16 * kMaxLinearPanels * static_cast<size_t>(worker.count());
  const Range panels = worker.share(w.n_panels(), many ? kMaxLinearPanels : 1);
  linear_panels(worker, context, w, x, panels, y, y_stride);
}

void linear_panels(const Worker& worker, const LinearContext& context, const PackedMatrix& w, const LinearInput& x,
                   Range panels, float* y, size_t y_stride) {
  CHECK_EQ(w.n_cols, x.n_cols);
  DCHECK(y_stride >= kPanelRows * w.n_panels());
  if (panels.empty()) return;
  std::byte* scratch = context.scratch + static_cast<size_t>(worker.index()) * context.scratch_stride;
  const Kernels& kernels = *context.kernels;
  if (!panel_is_float(w.type)) {
    CHECK(x.quantized.q != nullptr) << "a quantised layer needs a quantised input";
    kernels.linear_int8(w, x.quantized, panels, y, y_stride, scratch);
  } else if (context.numerics == Numerics::kFast && x.n_rows >= kBlasRows && blas_available()) {
    blas_linear(kernels, w, x.values, x.stride, x.n_rows, panels, y, y_stride, scratch);
  } else {
    kernels.linear_float(w, x.values, x.stride, x.n_rows, panels, y, y_stride);
  }
}

}  // namespace ibid
