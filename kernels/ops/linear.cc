#include "kernels/ops/linear.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/ops/blas.h"

namespace ibid {

namespace {

constexpr size_t kTileColumns = kMaxLinearPanels * kPanelRows;

}  // namespace

size_t linear_scratch_bytes(size_t max_n_cols) {
  // The scratch contains the float accumulators of a tile plus one vector, and the tile's unpacked panels: for each row
  // of W a byte per code, and a float scale and a float min per 16 columns.
  const size_t cols = (max_n_cols + kChunkCols - 1) / kChunkCols * kChunkCols;
  const size_t unpacked = kTileColumns * (kMaxLinearRows * sizeof(float) + cols + cols / 16 * 2 * sizeof(float)) +
                          kPanelRows * sizeof(float);
  return std::max(unpacked, blas_scratch_bytes(max_n_cols));
}

LinearInput LinearInput::rows(size_t first, size_t n) const {
  DCHECK(first % kRowGroup == 0 && first + n <= n_rows);
  LinearInput part = *this;
  part.values += first * stride;
  if (quantized.q != nullptr) {
    const size_t at = quantized.at(first, 0);
    part.quantized.q += at * kQuantBlock;
    part.quantized.scale += at;
    part.quantized.scaled_sum += at;
    part.quantized.offset32 += at;
    part.quantized.offset16 += quantized.half_at(first, 0, 0);
  }
  part.n_rows = part.quantized.n_rows = n;  // quantized.group stays, because it determines the memory layout
  return part;
}

void gather_rows(const LinearInput& from, std::span<const uint32_t> rows, InputForms forms, LinearInput& to) {
  DCHECK(from.n_cols == to.n_cols && (!forms.quantized || to.quantized.q != nullptr));
  to.set_rows(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (forms.values) std::memcpy(to.values + i * to.stride, from.values + rows[i] * from.stride, 4 * from.n_cols);
    if (!forms.quantized) continue;
    const QuantizedRows &source = from.quantized, &target = to.quantized;
    for (size_t b = 0; b < source.blocks(); ++b) {
      const size_t s = source.at(rows[i], b), t = target.at(i, b);
      std::memcpy(target.q + t * kQuantBlock, source.q + s * kQuantBlock, kQuantBlock);
      target.scale[t] = source.scale[s];
      target.scaled_sum[t] = source.scaled_sum[s];
      target.offset32[t] = source.offset32[s];
      for (const size_t half : {0, 1}) {
        target.offset16[target.half_at(i, b, half)] = source.offset16[source.half_at(rows[i], b, half)];
      }
    }
  }
}

PackedMatrix panels_of(const PackedMatrix& w, Range panels) {
  DCHECK(panels.end <= w.n_panels());
  PackedMatrix part = w;
  part.n_rows = std::min(w.n_rows, panels.end * kPanelRows) - panels.begin * kPanelRows;
  part.data += panels.begin * panel_bytes(w.type, w.n_cols);
  return part;
}

void linear(const Worker& worker, const LinearContext& context, const PackedMatrix& w, const LinearInput& x, float* y,
            size_t y_stride) {
  // Give each thread whole tiles, unless too few tiles would leave threads unbalanced.
  const bool many = w.n_panels() >= 16 * kMaxLinearPanels * static_cast<size_t>(worker.count());
  const Range panels = worker.share(w.n_panels(), many ? kMaxLinearPanels : 1);
  linear_panels(worker, context, w, x, panels, y, y_stride);
}

void linear_panels(const Worker& worker, const LinearContext& context, const PackedMatrix& w, const LinearInput& x,
                   Range panels, float* y, size_t y_stride) {
  CHECK_EQ(w.n_cols, x.n_cols);
  DCHECK(y_stride >= kPanelRows * panels.size());
  if (panels.empty()) return;
  std::byte* scratch = context.scratch + static_cast<size_t>(worker.index()) * context.scratch_stride;
  const Kernels& kernels = *context.kernels;
  if (!panel_is_float(w.type)) {
    CHECK(x.quantized.q != nullptr) << "a quantised layer needs a quantised input";
    kernels.linear_int8(w, x.quantized, panels, y, y_stride, scratch);
  } else if (context.numerics == Numerics::kFast && x.n_rows >= blas_rows(w.type) && blas_available()) {
    blas_linear(kernels, w, x.values, x.stride, x.n_rows, panels, y, y_stride, scratch);
  } else {
    kernels.linear_float(w, x.values, x.stride, x.n_rows, panels, y, y_stride);
  }
}

}  // namespace ibid
