// Quantised linear layers, written once on the operations of vec_*.h. Included by isa_*.cc.
//
// Few rows (gemv): codes are unpacked in registers; each panel is read from memory once for all rows. More rows (gemm):
// kLinearPanels panels are unpacked to scratch, one byte per code and float scales, and multiplied by kLinearRows rows
// at a time; integer sums of one block stay in registers, the float accumulators in L1. Both evaluate the formula of
// kernels.h in its order, so results are bit-identical.

#include "kernels/simd/panel_codes-inl.h"

namespace ibid::IBID_ISA {
namespace {

// Minimum number of rows for gemm: with fewer, unpacking in registers again for each group of rows is cheaper.
constexpr size_t kGemmRows = 8;
// Prefetch distance of panels into the L2 cache. The hardware prefetchers alone do not keep up with a loop this long.
// Prefetching 6 KB ahead into L1, which has too few outstanding misses, was 4 to 30 % slower. 12 KB is better than 6 KB
// for weights in the L3 cache, and equally good for weights in memory.
constexpr size_t kPrefetchBytes = 12288;

static_assert(kLinearPanels <= kMaxLinearPanels && kLinearRows <= kMaxLinearRows);  // the scratch fits

// --- integer sums

// Integer sums for codes stored as code + kOffset. kSmall: stored codes are below 128.
template <int kOffset, bool kSmall>
struct Sums {
  // Returns the initial value of a sum. offset: -128 * sum of the row's q over the columns of the sum.
  IBID_INLINE static I16 start(const int32_t* offset) {
    if constexpr (kOffset == 0 || (!kSmall && !kDotNeedsOffset)) return set1(0);
    if constexpr (kOffset == 8) return shift_right<4>(set1(*offset));
    if constexpr (kOffset == 16) return shift_right<3>(set1(*offset));
    if constexpr (kOffset == 32) return shift_right<2>(set1(*offset));
    if constexpr (kOffset == 64) return shift_right<1>(set1(*offset));
    return set1(*offset);
  }
  IBID_INLINE static I16 dot(I16 acc, B64 codes, B64 x) {
    return kSmall ? dot4_small(acc, codes, x) : dot4_offset128(acc, codes, x);
  }
};

// --- few rows

// Pointers to one block of consecutive rows in one row group. kGroups: groups of columns per block.
template <size_t kGroups>
struct RowsAt {
  const int8_t* q;
  const float *scale, *scaled_sum;
  const int32_t* offset;  // QuantizedRows::offset16 of the first 16 columns, or offset32
  size_t group;           // number of rows in the row group: the stride between blocks

  IBID_INLINE RowsAt(const QuantizedRows& x, size_t row)
      : q(x.q + x.at(row, 0) * kQuantBlock),
        scale(x.scale + x.at(row, 0)),
        scaled_sum(x.scaled_sum + x.at(row, 0)),
        offset(kGroups == 1 ? x.offset32 + x.at(row, 0) : x.offset16 + x.half_at(row, 0, 0)),
        group(x.group) {}
  IBID_INLINE void next_block() {
    q += group * kQuantBlock;
    scale += group;
    scaled_sum += group;
    offset += group * kGroups;
  }
};

// Accumulates the products of block `index` of the chunk for kRows rows.
template <typename F, size_t kRows>
IBID_INLINE void gemv_block(const std::byte* chunk, B64 table, size_t index, const RowsAt<F::kGroups>& x, V16* acc) {
  using S = Sums<F::kOffset, F::kSmall>;
  const BlockCodes codes = load_codes<F>(chunk + F::kCodesAt + index * F::kBlockBytes, table);
  constexpr size_t kVectors = 8 / F::kGroups;  // vectors for each scale
#pragma GCC unroll 2
  for (size_t group = 0; group < F::kGroups; ++group) {
    const V16 scale = load_scales<F>(chunk, index * F::kGroups + group);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const int8_t* q = x.q + r * kQuantBlock;
      I16 sum = S::start(x.offset + group * x.group + r);
#pragma GCC unroll 8
      for (size_t j = group * kVectors; j < (group + 1) * kVectors; ++j) {
        sum = S::dot(sum, codes.at[j], spread4(q + 4 * j));
      }
      acc[r] = fma(to_float(sum), mul(scale, set1(x.scale[r])), acc[r]);
    }
    if constexpr (F::kMins) {
      const V16 min = load_mins<F>(chunk, index * F::kGroups + group);
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        const float x_sum = F::kHalfMins ? scaled_half_sum(x.scale[r], x.offset[group * x.group + r]) : x.scaled_sum[r];
        acc[r] = fma(min, set1(x_sum), acc[r]);
      }
    }
  }
}

// Multiplies rows [row, row + kRows) by one panel. y: the panel's first output of row 0.
template <typename F, size_t kRows>
void gemv_panel(const std::byte* panel, B64 table, const QuantizedRows& x, size_t row, float* y, size_t y_stride) {
  V16 acc[kRows];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) acc[r] = zero();
  // Prefetch the same number of lines in each iteration: a loop whose end varies is mispredicted once per iteration.
  constexpr size_t kPairs = F::kChunkBlocks / 2, kPairBytes = (F::kChunkBytes / 64 + kPairs - 1) / kPairs * 64;
  RowsAt<F::kGroups> at(x, row);
  size_t pairs = x.blocks() / 2;
  for (; pairs > 0; panel += F::kChunkBytes) {
    const size_t n = pairs < kPairs ? pairs : kPairs;
    for (size_t pair = 0; pair < n; ++pair) {
      const std::byte* ahead = panel + kPrefetchBytes + pair * kPairBytes;
      for (size_t line = 0; line < kPairBytes; line += 64) prefetch_l2(ahead + line);
      gemv_block<F, kRows>(panel, table, 2 * pair, at, acc);
      at.next_block();
      gemv_block<F, kRows>(panel, table, 2 * pair + 1, at, acc);
      at.next_block();
    }
    pairs -= n;
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) storeu(y + (row + r) * y_stride, acc[r]);
}

template <typename F>
void gemv(const PackedMatrix& w, const QuantizedRows& x, Range panels, float* y, size_t y_stride) {
  const size_t panel_size = F::panel_bytes(x.blocks());
  const B64 table = load_table<F>(w.type);
  for (size_t p = panels.begin; p < panels.end; ++p) {
    const std::byte* panel = w.data + p * panel_size;
    float* out = y + p * kPanelRows;
    size_t row = 0;
    for (; row + 4 <= x.n_rows; row += 4) gemv_panel<F, 4>(panel, table, x, row, out, y_stride);
    switch (x.n_rows - row) {
      case 1: gemv_panel<F, 1>(panel, table, x, row, out, y_stride); break;
      case 2: gemv_panel<F, 2>(panel, table, x, row, out, y_stride); break;
      case 3: gemv_panel<F, 3>(panel, table, x, row, out, y_stride); break;
      default: break;
    }
  }
}

// --- many rows

// Types with an offset are unpacked to code + 128 if the dot product costs the same for bytes from 128 on.
template <typename F>
struct GemmTraits {
  static constexpr bool kBiased = kDotNeedsOffset && F::kOffset != 0;
  static constexpr int kOffset = kBiased ? 128 : F::kOffset;
  using S = Sums<kOffset, F::kSmall && !kBiased>;
};

// Multiplies kRows rows of x by kPanels unpacked panels.
template <typename S, size_t kGroups, bool kMins, size_t kRows, size_t kPanels>
struct Tile {
  // Integer sums over the columns of one scale, for adjacent rows starting at q and offset.
  IBID_INLINE static void multiply(const uint8_t* codes, const int8_t* q, const int32_t* offset,
                                   I16 (&sum)[kRows][kPanels]) {
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (size_t p = 0; p < kPanels; ++p) sum[r][p] = S::start(offset + r);
    }
#pragma GCC unroll 8
    for (size_t j = 0; j < 8 / kGroups; ++j) {
      B64 c[kPanels];
#pragma GCC unroll 8
      for (size_t p = 0; p < kPanels; ++p) c[p] = load_bytes(codes + (j * kPanels + p) * 64);
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        const B64 x4 = spread4(q + r * kQuantBlock + 4 * j);
#pragma GCC unroll 8
        for (size_t p = 0; p < kPanels; ++p) sum[r][p] = S::dot(sum[r][p], c[p], x4);
      }
    }
  }

  // acc += sums times scales, plus mins times x_sum.
  IBID_INLINE static void accumulate(const I16 (&sum)[kRows][kPanels], const float* scales, const float* mins,
                                     const float* x_scale, const float* x_sum, float* acc) {
    // Load before the first store to acc, because the compiler cannot know that acc does not overlap scales and mins.
    V16 scale[kPanels], min[kPanels];
#pragma GCC unroll 8
    for (size_t p = 0; p < kPanels; ++p) {
      scale[p] = load(scales + p * kPanelRows);
      if constexpr (kMins) min[p] = load(mins + p * kPanelRows);
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const V16 row_scale = set1(x_scale[r]);
      V16 row_sum;
      if constexpr (kMins) row_sum = set1(x_sum[r]);
#pragma GCC unroll 8
      for (size_t p = 0; p < kPanels; ++p) {
        float* a = acc + (r * kPanels + p) * kPanelRows;
        V16 total = fma(to_float(sum[r][p]), mul(scale[p], row_scale), load(a));
        if constexpr (kMins) total = fma(min[p], row_sum, total);
        store(a, total);
      }
    }
  }

  // Clears acc, and fetches the outputs before they are computed: stores to lines that are not in the cache would delay
  // those to acc. Not inlined, because the loop of run() needs the registers.
  [[gnu::noinline]] static void begin_outputs(float* acc, const float* y, size_t y_stride) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t p = 0; p < kPanels; ++p) {
        store(acc + (r * kPanels + p) * kPanelRows, zero());
        prefetch_to_write(y + r * y_stride + p * kPanelRows);
      }
    }
  }

  // Multiplies rows [row, row + kRows), all in one row group. acc: kRows * kPanels vectors, followed by one vector for
  // the factors of mins of 16 columns. acc is in L1, because in registers it would displace the integer sums.
  static void run(const Unpacked<kPanels>& unpacked, const QuantizedRows& x, size_t row, Ahead& ahead, float* acc,
                  float* y, size_t y_stride) {
    const size_t blocks = x.blocks();
    const Unpacked<kPanels> w = unpacked;
    RowsAt<kGroups> at(x, row);
    begin_outputs(acc, y + row * y_stride, y_stride);
    float* const half_sums = acc + kRows * kPanels * kPanelRows;
    const size_t in_group = row & (x.group - 1);
    for (size_t b = 0; b < blocks; ++b) {
      ahead.prefetch_lines(kAheadLines);
      for (size_t group = 0; group < kGroups; ++group) {
        const size_t scale_index = b * kGroups + group;
        keep_in_memory(acc);
        I16 sum[kRows][kPanels];
        multiply(w.codes + scale_index * (8 / kGroups) * kPanels * 64, at.q + group * (kQuantBlock / kGroups),
                 at.offset + group * at.group, sum);
        const float* x_sum = at.scaled_sum;
        if constexpr (kMins && kGroups == 2) {
          scale_half_sums(at.scale - in_group, at.offset + group * at.group - in_group, half_sums);
          x_sum = half_sums + in_group;
        }
        const size_t of_scale = scale_index * kPanels * kPanelRows;
        accumulate(sum, w.scales + of_scale, w.mins + of_scale, at.scale, x_sum, acc);
      }
      at.next_block();
    }
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t p = 0; p < kPanels; ++p) {
        storeu(y + (row + r) * y_stride + p * kPanelRows, load(acc + (r * kPanels + p) * kPanelRows));
      }
    }
  }
};

// Multiplies rows of x by kPanels panels starting at panel `p`.
template <typename F, size_t kPanels>
void gemm_panels(const PackedMatrix& w, const QuantizedRows& x, size_t p, Range rows, float* y, size_t y_stride,
                 std::byte* scratch) {
  using S = typename GemmTraits<F>::S;
  const size_t blocks = x.blocks();
  auto* acc = reinterpret_cast<float*>(scratch);
  auto* codes = reinterpret_cast<uint8_t*>(acc + (kLinearRows * kPanels + F::kHalfMins) * kPanelRows);
  auto* scales = reinterpret_cast<float*>(codes + blocks * kQuantBlock * kPanelRows * kPanels);
  const Unpacked<kPanels> unpacked{codes, scales, scales + blocks * F::kGroups * kPanelRows * kPanels};
  const size_t panel_size = F::panel_bytes(blocks);
  for (size_t i = 0; i < kPanels; ++i) {
    unpack_panel<F, GemmTraits<F>::kOffset - F::kOffset, kPanels>(w.data + (p + i) * panel_size, load_table<F>(w.type),
                                                                  blocks, i, unpacked);
  }
  const std::byte* next = w.data + (p + kPanels) * panel_size;
  Ahead ahead{next, p + kPanels < w.n_panels() ? next + kPanels * panel_size : next};
  float* out = y + p * kPanelRows;
  size_t row = rows.begin;
  for (; row + kLinearRows <= rows.end; row += kLinearRows) {
    Tile<S, F::kGroups, F::kMins, kLinearRows, kPanels>::run(unpacked, x, row, ahead, acc, out, y_stride);
  }
  if (row + 4 <= rows.end) {
    Tile<S, F::kGroups, F::kMins, 4, kPanels>::run(unpacked, x, row, ahead, acc, out, y_stride);
    row += 4;
  }
  switch (rows.end - row) {
    case 1: Tile<S, F::kGroups, F::kMins, 1, kPanels>::run(unpacked, x, row, ahead, acc, out, y_stride); break;
    case 2: Tile<S, F::kGroups, F::kMins, 2, kPanels>::run(unpacked, x, row, ahead, acc, out, y_stride); break;
    case 3: Tile<S, F::kGroups, F::kMins, 3, kPanels>::run(unpacked, x, row, ahead, acc, out, y_stride); break;
    default: break;
  }
}

template <typename F>
void linear_format(const PackedMatrix& w, const QuantizedRows& x, Range panels, float* y, size_t y_stride,
                   std::byte* scratch) {
  if (x.n_rows < kGemmRows) return gemv<F>(w, x, panels, y, y_stride);
  const size_t fitting = kRowBlockBytes / x.padded_cols() / kLinearRows * kLinearRows;
  const size_t row_block = fitting < kGemmRows ? kGemmRows : fitting;
  for (size_t row = 0; row < x.n_rows; row += row_block) {
    const Range rows{row, row + row_block < x.n_rows ? row + row_block : x.n_rows};
    size_t p = panels.begin;
    for (; p + kLinearPanels <= panels.end; p += kLinearPanels) {
      gemm_panels<F, kLinearPanels>(w, x, p, rows, y, y_stride, scratch);
    }
    for (; p < panels.end; ++p) gemm_panels<F, 1>(w, x, p, rows, y, y_stride, scratch);
  }
}

void linear_int8(const PackedMatrix& w, const QuantizedRows& x, Range panels, float* y, size_t y_stride,
                 std::byte* scratch) {
  with_format(w.type, [&](auto format) { linear_format<decltype(format)>(w, x, panels, y, y_stride, scratch); });
}

}  // namespace
}  // namespace ibid::IBID_ISA
