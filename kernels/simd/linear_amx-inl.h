// Quantised linear layers of sixteen or more rows on AMX: one tile instruction multiplies 16 rows by 16 outputs over
// all columns of a scale. Included by isa_amx.cc, after vec_avx512.h.
//
// The integer sums are exact, so they equal those of every other instruction set. The float formula of kernels.h keeps
// its accumulators (16 rows of one panel) in registers from the first block to the last. This formula is the
// bottleneck, with 3 or 4 vector operations per row and block, so the tile products run at the same time: while one
// block's sums are scaled, the next block is multiplied.

#include "kernels/simd/panel_codes-inl.h"
#include "kernels/simd/tiles_amx.h"

namespace ibid::IBID_ISA {
namespace {

static_assert(2 * kRowGroup <= kMaxLinearPanels * kMaxLinearRows);  // the scratch holds the sums of two groups

// One unpacked panel. Its codes are signed, so no sum needs an offset.
using SignedPanel = Unpacked<1>;

// Multiplies the first kRows (16, 8 or 4) of a group of rows of x by one panel. The tiles always multiply all sixteen:
//   tmm0, tmm1   rows of x [16][columns of a group]      tmm2, tmm3   the panel [columns / 4][16][4]
//   tmm4, tmm5   sums [16][16]
// Each of the three has two registers, so that one group of columns is loaded, and the sums of another are stored,
// while a third group is multiplied.
template <typename F, size_t kRows>
struct AmxTile {
  static constexpr size_t kSums = kRowGroup * kPanelRows;  // number of sums for one group of columns

  const SignedPanel w;
  const int8_t* q;            // codes of block 0; stride kRowGroup * 32
  const float* x_scale;       // scales of block 0; stride kRowGroup
  const float* x_sum;         // factors of mins of 32 columns, laid out as x_scale
  const int32_t* x_offset16;  // offsets of block 0 (QuantizedRows::offset16); stride 2 * kRowGroup
  int32_t* sums;              // [2][16][16]
  float* half_sums;           // [16]  factors of mins of 16 columns

  IBID_INLINE int32_t* slot(size_t group) const { return sums + group % 2 * kSums; }

  template <int kTurn>
  IBID_INLINE void load_group(size_t group) const {
    const size_t b = group / F::kGroups, half = group % F::kGroups;
    tile_load<kTurn>(q + b * (kRowGroup * kQuantBlock) + half * F::kGroup, kQuantBlock);
    tile_load<2 + kTurn>(w.codes + group * F::kGroup * kPanelRows, 64);
  }

  template <int kTurn>
  IBID_INLINE static void multiply() {
    tile_zero<4 + kTurn>();
    tile_multiply<4 + kTurn, kTurn, 2 + kTurn>();
  }

  template <int kTurn>
  IBID_INLINE void store_sums(size_t group) const {
    tile_store<4 + kTurn>(slot(group), kPanelRows * sizeof(int32_t));
  }

  IBID_INLINE void accumulate(size_t group, V16 (&acc)[kRows]) const {
    const size_t b = group / F::kGroups;
    const int32_t* of_group = slot(group);
    const float* row_scale = x_scale + b * kRowGroup;
    const V16 scale = load(w.scales + group * kPanelRows);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      acc[r] = fma(small_to_float(load(of_group + r * kPanelRows)), mul(scale, set1(row_scale[r])), acc[r]);
    }
    if constexpr (F::kMins) {
      const float* row_sum = x_sum + b * kRowGroup;
      if constexpr (F::kHalfMins) {
        scale_half_sums(row_scale, x_offset16 + group * kRowGroup, half_sums);
        row_sum = half_sums;
      }
      const V16 min = load(w.mins + group * kPanelRows);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) acc[r] = fma(min, set1(row_sum[r]), acc[r]);
    }
  }

  // One pipeline step: vectors accumulate group g of columns while the sums of g + 1 are stored, g + 2 is multiplied
  // and g + 3 is loaded. Each of these takes longer than the accumulation of one group, so they must overlap.
  template <int kTurn>
  IBID_INLINE void step(size_t g, size_t groups, V16 (&acc)[kRows]) const {
    store_sums<1 - kTurn>(g + 1);
    multiply<kTurn>();
    load_group<1 - kTurn>(g + 3 < groups ? g + 3 : g + 1);
    accumulate(g, acc);
  }

  // Prefetches blocks g and g + 1 of the following group of rows.
  IBID_INLINE void prefetch_first_blocks(size_t blocks, size_t g) const {
    const int8_t* next = q + (blocks + g) * (kRowGroup * kQuantBlock);
    for (size_t line = 0; line < 2 * kRowGroup * kQuantBlock; line += 64) prefetch(next + line);
    prefetch(x_scale + (blocks + g) * kRowGroup);
    prefetch(x_scale + (blocks + g + 1) * kRowGroup);
    if constexpr (F::kMins && !F::kHalfMins) {
      prefetch(x_sum + (blocks + g) * kRowGroup);
      prefetch(x_sum + (blocks + g + 1) * kRowGroup);
    }
    if constexpr (F::kHalfMins) {
      const int32_t* sums_of_next = x_offset16 + 2 * (blocks + g) * kRowGroup;
      for (size_t line = 0; line < 4; ++line) prefetch(sums_of_next + line * kRowGroup);
    }
  }

  // y: outputs of row 0; n of the rows are stored. Not inlined: a test checks that its stack has no spilled vectors.
  [[gnu::noinline]] void run(size_t blocks, Ahead& ahead, float* y, size_t y_stride, size_t n) const {
    V16 acc[kRows];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) acc[r] = zero();
    const size_t groups = blocks * F::kGroups;  // even, because rows are padded to whole chunks
    load_group<0>(0);
    load_group<1>(1);
    multiply<0>();
    multiply<1>();
    load_group<0>(groups > 2 ? 2 : 0);
    store_sums<0>(0);
    for (size_t g = 0; g + 2 < groups; g += 2) {
      ahead.prefetch_lines(kAheadLines);
      if (g < 2 * n) prefetch(y + g / 2 * y_stride);
      // Prefetch the first blocks of the next rows; the hardware prefetches the rest.
      if (g < 4) prefetch_first_blocks(blocks, g);
      step<0>(g, groups, acc);
      step<1>(g + 1, groups, acc);
    }
    store_sums<1>(groups - 1);
    accumulate(groups - 2, acc);
    accumulate(groups - 1, acc);
    // If rows are missing, store through the scratch: with a condition at each store, vectors would be spilled.
    float* const to = n == kRows ? y : reinterpret_cast<float*>(sums);
    const size_t stride = n == kRows ? y_stride : kPanelRows;
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) storeu(to + r * stride, acc[r]);
    for (size_t r = 0; n < kRows && r < n; ++r) storeu(y + r * y_stride, load(to + r * stride));
  }
};

template <typename F, size_t kRows>
void amx_rows(const SignedPanel& w, const QuantizedRows& x, size_t row, int32_t* sums, Ahead& ahead, float* y,
              size_t y_stride, size_t n) {
  const size_t first = x.at(row, 0);
  const AmxTile<F, kRows> tile{w,
                               x.q + first * kQuantBlock,
                               x.scale + first,
                               x.scaled_sum + first,
                               x.offset16 + x.half_at(row, 0, 0),
                               sums,
                               reinterpret_cast<float*>(sums) + 2 * kRowGroup * kPanelRows};
  tile.run(x.blocks(), ahead, y + row * y_stride, y_stride, n);
}

// Multiplies rows [rows.begin, rows.end) of x by panel p. rows.begin: a multiple of kRowGroup.
template <typename F>
void amx_panel(const PackedMatrix& w, const QuantizedRows& x, size_t p, Range rows, float* y, size_t y_stride,
               std::byte* scratch) {
  const size_t blocks = x.blocks(), panel_size = F::panel_bytes(blocks);
  auto* sums = reinterpret_cast<int32_t*>(scratch);
  auto* codes = reinterpret_cast<uint8_t*>(sums + (2 * kRowGroup + F::kHalfMins) * kPanelRows);
  auto* scales = reinterpret_cast<float*>(codes + blocks * kQuantBlock * kPanelRows);
  const SignedPanel unpacked{codes, scales, scales + blocks * F::kGroups * kPanelRows};
  const std::byte* panel = w.data + p * panel_size;
  unpack_panel<F, -F::kOffset, 1>(panel, load_table<F>(w.type), blocks, 0, unpacked);
  Ahead ahead{panel + panel_size, panel + panel_size + (p + 1 < w.n_panels() ? panel_size : 0)};
  float* out = y + p * kPanelRows;
  for (size_t row = rows.begin; row < rows.end; row += kRowGroup) {
    const size_t left = rows.end - row;
    if (left > 8) {
      amx_rows<F, 16>(unpacked, x, row, sums, ahead, out, y_stride, left < 16 ? left : 16);
    } else if (left > 4) {
      amx_rows<F, 8>(unpacked, x, row, sums, ahead, out, y_stride, left);
    } else {
      amx_rows<F, 4>(unpacked, x, row, sums, ahead, out, y_stride, left);
    }
  }
}

template <typename F>
void amx_format(const PackedMatrix& w, const QuantizedRows& x, Range panels, float* y, size_t y_stride,
                std::byte* scratch) {
  constexpr TileShape kRowsOfX{kRowGroup, F::kGroup}, kPanel{F::kGroup / 4, 64}, kSums{kRowGroup, 64};
  const TileScope tiles({kRowsOfX, kRowsOfX, kPanel, kPanel, kSums, kSums, kSums, kSums});
  const size_t fitting = kRowBlockBytes / x.padded_cols() / kRowGroup * kRowGroup;
  const size_t row_block = fitting < kRowGroup ? kRowGroup : fitting;
  for (size_t row = 0; row < x.n_rows; row += row_block) {
    const size_t end = row + row_block < x.n_rows ? row + row_block : x.n_rows;
    for (size_t p = panels.begin; p < panels.end; ++p) amx_panel<F>(w, x, p, {row, end}, y, y_stride, scratch);
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
