#include "kernels/linear.h"

#include <algorithm>

#include "base/check.h"

namespace ibid {

namespace {

constexpr size_t kTileColumns = 64;  // the widest register tile: shares are whole tiles where they can be

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

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
  const QuantizedRows end = at(nullptr, n_rows, n_cols);
  return static_cast<size_t>(reinterpret_cast<uintptr_t>(end.offset16)) +
         aligned(2 * n_rows * end.blocks() * sizeof(int32_t));
}

QuantizedRows QuantizedRows::at(std::byte* memory, size_t n_rows, size_t n_cols) {
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
  const size_t n_blocks = n_rows * rows.blocks();
  rows.q = reinterpret_cast<int8_t*>(take(n_rows * rows.padded_cols()));
  rows.scale = reinterpret_cast<float*>(take(n_blocks * sizeof(float)));
  rows.scaled_sum = reinterpret_cast<float*>(take(n_blocks * sizeof(float)));
  rows.offset32 = reinterpret_cast<int32_t*>(take(n_blocks * sizeof(int32_t)));
  rows.offset16 = reinterpret_cast<int32_t*>(take(2 * n_blocks * sizeof(int32_t)));
  return rows;
}

size_t linear_scratch_bytes(size_t max_n_cols) {
  // Float accumulators of 4 rows; 64 unpacked rows of W: a byte per code, and a float scale per 16 columns
  // (or scale and min per 32).
  const size_t cols = (max_n_cols + kChunkCols - 1) / kChunkCols * kChunkCols;
  return kTileColumns * (4 * sizeof(float) + cols + cols / 16 * sizeof(float));
}

void linear(const Worker& worker, const LinearContext& context, const PackedMatrix& w, const LinearInput& x,
            float* y, size_t y_stride) {
  CHECK_EQ(w.n_cols, x.n_cols);
  DCHECK(y_stride >= kPanelRows * w.n_panels());
  // Whole tiles per thread, unless there are too few of them to be balanced.
  const size_t tiles = w.n_panels() * kPanelRows / kTileColumns;
  const size_t grain = tiles >= 8 * static_cast<size_t>(worker.count()) ? kTileColumns / kPanelRows : 1;
  const Range panels = worker.share(w.n_panels(), grain);
  if (panels.empty()) return;
  if (panel_is_float(w.type)) {
    context.kernels->linear_float(w, x.values, x.stride, x.n_rows, panels, y, y_stride);
    return;
  }
  CHECK(x.quantized.q != nullptr) << "a quantised layer needs a quantised input";
  std::byte* scratch = context.scratch + static_cast<size_t>(worker.index()) * context.scratch_stride;
  context.kernels->linear_int8(w, x.quantized, panels, y, y_stride, scratch);
}

}  // namespace ibid
