// Linear layers on float panels, written once on the operations of vec_*.h. Included by isa_*.cc.
//
// A tile of panels and rows accumulates in registers over a block of columns. Between blocks the accumulators are
// stored in y as floats, without rounding, so dividing the columns into blocks does not change results.

#include "kernels/kernels.h"

namespace ibid::IBID_ISA {
namespace {

// Columns per block: four panels of a block (256 KB as floats) and the inputs of one row block fit in L2.
constexpr size_t kFloatColumnBlock = 1024;
constexpr size_t kFloatRowBlock = 128;
constexpr size_t kFloatPrefetchColumns = 128;  // prefetch distance in columns: 8 KB of floats

// kScaled: every 32 columns begin with one scale per row (kernels/layout/panel.h); otherwise a panel has only columns.
struct FloatWeights {
  static constexpr size_t kBytes = 4;
  static constexpr bool kScaled = false;
  IBID_INLINE static V16 at(const std::byte* p) { return loadu(reinterpret_cast<const float*>(p)); }
};
struct HalfWeights {
  static constexpr size_t kBytes = 2;
  static constexpr bool kScaled = false;
  IBID_INLINE static V16 at(const std::byte* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }
};
struct BfloatWeights {
  static constexpr size_t kBytes = 2;
  static constexpr bool kScaled = false;
  IBID_INLINE static V16 at(const std::byte* p) { return load_bf16(reinterpret_cast<const uint16_t*>(p)); }
};

struct E4m3Weights {
  static constexpr size_t kBytes = 1;
  static constexpr bool kScaled = true;
  IBID_INLINE static V16 at(const std::byte* p) { return load_e4m3(reinterpret_cast<const uint8_t*>(p)); }
};
struct E5m2Weights {
  static constexpr size_t kBytes = 1;
  static constexpr bool kScaled = true;
  IBID_INLINE static V16 at(const std::byte* p) { return load_e5m2(reinterpret_cast<const uint8_t*>(p)); }
};

constexpr size_t kScaleBytes = kPanelRows * sizeof(float);

// float_panel_size(): bytes of a panel. column_offset(): byte offset of column k or, if kScaled, of the chunk that
// contains k.
template <typename W>
constexpr size_t float_panel_size(size_t n_cols) {
  if (W::kScaled) return n_cols / kQuantBlock * kF8ChunkBytes;
  return (n_cols * kPanelRows * W::kBytes + 63) / 64 * 64;
}
template <typename W>
constexpr size_t column_offset(size_t k) {
  return W::kScaled ? k / kQuantBlock * kF8ChunkBytes : k * kPanelRows * W::kBytes;
}

// Operands of a tile.
struct FloatTile {
  const std::byte* w;  // address of the block's first column in the first panel
  size_t panel_size;   // bytes to the next panel
  const float* x;      // address of the block's first column in the first row
  size_t x_stride;
  Range columns;
  float* y;  // outputs of the first panel in the first row
  size_t y_stride;
};

template <typename W, size_t kRows, size_t kPanels>
void float_tile(const FloatTile& t) {
  constexpr size_t kStep = kPanelRows * W::kBytes;
  V16 acc[kRows][kPanels];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t p = 0; p < kPanels; ++p) {
      acc[r][p] = t.columns.begin == 0 ? zero() : loadu(t.y + r * t.y_stride + p * kPanelRows);
    }
  }
  const std::byte* w = t.w;
  const float* x = t.x;
  for (size_t k = t.columns.begin; k < t.columns.end;) {
    size_t end = t.columns.end;
    V16 scales[kPanels];
    if constexpr (W::kScaled) {
#pragma GCC unroll 8
      for (size_t p = 0; p < kPanels; ++p) scales[p] = loadu(reinterpret_cast<const float*>(w + p * t.panel_size));
      w += kScaleBytes;
      end = k + kQuantBlock;
    }
    for (; k < end; ++k, w += kStep, ++x) {
      V16 weights[kPanels];
#pragma GCC unroll 8
      for (size_t p = 0; p < kPanels; ++p) {
        weights[p] = W::at(w + p * t.panel_size);
        if constexpr (W::kScaled) weights[p] = mul(weights[p], scales[p]);
        if (kRows <= 4) prefetch_l2(w + p * t.panel_size + kFloatPrefetchColumns * kStep);
      }
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        const V16 value = set1(x[r * t.x_stride]);
#pragma GCC unroll 8
        for (size_t p = 0; p < kPanels; ++p) acc[r][p] = fma(weights[p], value, acc[r][p]);
      }
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t p = 0; p < kPanels; ++p) storeu(t.y + r * t.y_stride + p * kPanelRows, acc[r][p]);
  }
}

template <typename W, size_t kPanels>
void float_rows(FloatTile t, size_t n_rows) {
  for (; n_rows >= kLinearRows; n_rows -= kLinearRows) {
    float_tile<W, kLinearRows, kPanels>(t);
    t.x += kLinearRows * t.x_stride;
    t.y += kLinearRows * t.y_stride;
  }
  if (n_rows >= 4) {
    float_tile<W, 4, kPanels>(t);
    t.x += 4 * t.x_stride;
    t.y += 4 * t.y_stride;
    n_rows -= 4;
  }
  switch (n_rows) {
    case 1: return float_tile<W, 1, kPanels>(t);
    case 2: return float_tile<W, 2, kPanels>(t);
    case 3: return float_tile<W, 3, kPanels>(t);
    default: return;
  }
}

// Multiplies n_rows rows by kPanels panels starting at panel `p`.
template <typename W, size_t kPanels>
void float_panels(const PackedMatrix& w, const float* x, size_t x_stride, size_t n_rows, size_t p, float* y,
                  size_t y_stride) {
  const size_t panel_size = float_panel_size<W>(w.n_cols);
  for (size_t k = 0; k < w.n_cols; k += kFloatColumnBlock) {
    const size_t end = k + kFloatColumnBlock < w.n_cols ? k + kFloatColumnBlock : w.n_cols;
    const FloatTile tile{w.data + p * panel_size + column_offset<W>(k),
                         panel_size,
                         x + k,
                         x_stride,
                         Range{k, end},
                         y + p * kPanelRows,
                         y_stride};
    if constexpr (kPanels > kLinearPanels) {
      float_tile<W, 1, kPanels>(tile);  // n_rows is 1 here
    } else {
      float_rows<W, kPanels>(tile, n_rows);
    }
  }
}

template <typename W>
void linear_weights(const PackedMatrix& w, const float* x, size_t x_stride, size_t n_rows, Range panels, float* y,
                    size_t y_stride) {
  for (size_t row = 0; row < n_rows; row += kFloatRowBlock) {
    const size_t rows = n_rows - row < kFloatRowBlock ? n_rows - row : kFloatRowBlock;
    const float* in = x + row * x_stride;
    float* out = y + row * y_stride;
    size_t p = panels.begin;
    // With one row no weights are reused, so four panels at a time hide the latency of the row's additions.
    if (rows == 1) {
      for (; p + 4 <= panels.end; p += 4) float_panels<W, 4>(w, in, x_stride, 1, p, out, y_stride);
    }
    for (; p + kLinearPanels <= panels.end; p += kLinearPanels) {
      float_panels<W, kLinearPanels>(w, in, x_stride, rows, p, out, y_stride);
    }
    for (; p < panels.end; ++p) float_panels<W, 1>(w, in, x_stride, rows, p, out, y_stride);
  }
}

void linear_float(const PackedMatrix& w, const float* x, size_t x_stride, size_t n_rows, Range panels, float* y,
                  size_t y_stride) {
  switch (w.type) {
    case PanelType::kPE4: return linear_weights<E4m3Weights>(w, x, x_stride, n_rows, panels, y, y_stride);
    case PanelType::kPE5: return linear_weights<E5m2Weights>(w, x, x_stride, n_rows, panels, y, y_stride);
    case PanelType::kPF: return linear_weights<FloatWeights>(w, x, x_stride, n_rows, panels, y, y_stride);
    case PanelType::kPH: return linear_weights<HalfWeights>(w, x, x_stride, n_rows, panels, y, y_stride);
    case PanelType::kPB: return linear_weights<BfloatWeights>(w, x, x_stride, n_rows, panels, y, y_stride);
    default: return;  // quantised types use linear_int8
  }
}

template <typename W>
void widen(const PackedMatrix& w, Range panels, Range columns, float* out) {
  const size_t panel_size = float_panel_size<W>(w.n_cols);
  for (size_t k = columns.begin; k < columns.end; ++k) {
    for (size_t p = panels.begin; p < panels.end; ++p, out += kPanelRows) {
      const std::byte* panel = w.data + p * panel_size;
      if constexpr (W::kScaled) {
        const std::byte* chunk = panel + column_offset<W>(k);
        const V16 scale = loadu(reinterpret_cast<const float*>(chunk));
        storeu(out, mul(W::at(chunk + kScaleBytes + k % kQuantBlock * kPanelRows), scale));
      } else {
        storeu(out, W::at(panel + k * kPanelRows * W::kBytes));
      }
    }
  }
}

void widen_panels(const PackedMatrix& w, Range panels, Range columns, float* out) {
  switch (w.type) {
    case PanelType::kPE4: return widen<E4m3Weights>(w, panels, columns, out);
    case PanelType::kPE5: return widen<E5m2Weights>(w, panels, columns, out);
    case PanelType::kPF: return widen<FloatWeights>(w, panels, columns, out);
    case PanelType::kPH: return widen<HalfWeights>(w, panels, columns, out);
    case PanelType::kPB: return widen<BfloatWeights>(w, panels, columns, out);
    default: return;
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
