// Reads quantised panels (kernels/layout/panel.h): the codes of a block of 32 columns as vectors, and scales and mins
// as floats. Written once on the operations of vec_*.h, for every format. Included by the bodies of linear layers.

#include <utility>

#include "kernels/kernels.h"
#include "kernels/layout/panel_formats.h"

namespace ibid::IBID_ISA {
namespace {

using enum ScaleKind;

// A row of kPanels (kernels/layout/panel_formats.h) as compile-time constants, except the lookup table of codes, which
// is chosen at run time.
template <PanelFormat kLayout_>
struct Format {
  static constexpr PanelFormat kLayout = kLayout_;
  static constexpr int kBits = kLayout.bits, kOffset = kLayout.offset;
  static constexpr bool kMins = kLayout.has_mins, kTable = kLayout.table != CodeTable::kNoTable;
  static constexpr bool kSmall = kOffset < 128;  // stored codes, or the bytes of the lookup table, are below 128
  static constexpr ScaleKind kScales = kLayout.scales;
  static constexpr size_t kGroup = kLayout.group, kGroups = kQuantBlock / kGroup;  // columns/group, groups/block
  static constexpr bool kHalfMins = kMins && kGroups == 2;  // a min covers 16 columns, half a block
  static constexpr bool kSuper = kLayout.super_scales();
  static constexpr size_t kCodesAt = kLayout.codes_at();
  static constexpr size_t kBlockBytes = kLayout.block_code_bytes();
  static constexpr size_t kChunkBytes = kLayout.chunk_bytes();
  static constexpr size_t kChunkBlocks = kLayout.chunk_blocks();
  IBID_INLINE static size_t panel_bytes(size_t blocks) {
    return (blocks + kChunkBlocks - 1) / kChunkBlocks * kChunkBytes;
  }
};

// Returns the format whose kernels serve this type: formats that differ only in their table share kernels.
consteval PanelFormat kernel_format(size_t type) {
  PanelFormat format = kPanels[type].format;
  if (format.table != CodeTable::kNoTable) format.table = CodeTable::kFp4;
  return format;
}
// Returns the first type with the same kernels as this type; kPanelTypeCount for float panels (linear_float).
consteval size_t first_with_format(size_t type) {
  if (panel_is_float(kPanels[type].type)) return kPanelTypeCount;
  size_t first = 0;
  while (kernel_format(first) != kernel_format(type)) ++first;
  return first;
}
struct FirstTypes {
  uint8_t of[kPanelTypeCount];
};
consteval FirstTypes first_types() {
  FirstTypes all{};
  for (size_t type = 0; type < kPanelTypeCount; ++type) all.of[type] = static_cast<uint8_t>(first_with_format(type));
  return all;
}
constexpr FirstTypes kFirstTypes = first_types();

// Loads the table of a type, repeated in every quarter of a vector.
template <typename F>
IBID_INLINE B64 load_table(PanelType type) {
  if constexpr (F::kTable) return load_bytes(panel_lookup(type));
  return B64{};
}

// --- one block of a panel

// The codes of a block: vector j has columns 4 j .. 4 j + 3.
struct BlockCodes {
  B64 at[8];
};

template <typename F>
IBID_INLINE BlockCodes load_codes(const std::byte* codes, B64 table) {
  BlockCodes c;
  if constexpr (F::kBits == 8) {
    for (size_t j = 0; j < 8; ++j) c.at[j] = load_bytes(codes + 64 * j);
    return c;
  }
  if constexpr (F::kBits == 2) {
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      const B64 pairs = load_bytes(codes + 64 * v);
      c.at[4 * v] = bit_pair<0>(pairs);
      c.at[4 * v + 1] = bit_pair<1>(pairs);
      c.at[4 * v + 2] = bit_pair<2>(pairs);
      c.at[4 * v + 3] = bit_pair<3>(pairs);
    }
    return c;
  }
  for (size_t j = 0; j < 4; ++j) {
    const B64 pair = load_bytes(codes + 64 * j);
    c.at[j] = low_nibbles(pair);
    c.at[4 + j] = high_nibbles(pair);
    if constexpr (F::kTable) {
      c.at[j] = look_up(table, c.at[j]);
      c.at[4 + j] = look_up(table, c.at[4 + j]);
    }
  }
  if constexpr (F::kBits == 5) {
    const B64 fifth = load_bytes(codes + 256);
    c.at[0] = with_fifth_bit<0>(c.at[0], fifth);
    c.at[1] = with_fifth_bit<1>(c.at[1], fifth);
    c.at[2] = with_fifth_bit<2>(c.at[2], fifth);
    c.at[3] = with_fifth_bit<3>(c.at[3], fifth);
    c.at[4] = with_fifth_bit<4>(c.at[4], fifth);
    c.at[5] = with_fifth_bit<5>(c.at[5], fifth);
    c.at[6] = with_fifth_bit<6>(c.at[6], fifth);
    c.at[7] = with_fifth_bit<7>(c.at[7], fifth);
  }
  if constexpr (F::kBits == 6) {
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      const B64 high = load_bytes(codes + 256 + 64 * v);
      c.at[4 * v] = with_high_bits<0>(c.at[4 * v], high);
      c.at[4 * v + 1] = with_high_bits<1>(c.at[4 * v + 1], high);
      c.at[4 * v + 2] = with_high_bits<2>(c.at[4 * v + 2], high);
      c.at[4 * v + 3] = with_high_bits<3>(c.at[4 * v + 3], high);
    }
  }
  return c;
}

// Loads 16-bit numbers at `halves`; for types with super scales multiplies them by the int8 codes.
template <typename F>
IBID_INLINE V16 load_factors(const std::byte* halves, const std::byte* codes, size_t group) {
  const auto* at = reinterpret_cast<const uint16_t*>(halves);
  if constexpr (F::kScales == kBfloat) return load_bf16(at + group * kPanelRows);
  if constexpr (!F::kSuper) return load_f16(at + group * kPanelRows);
  const auto* factors = reinterpret_cast<const int8_t*>(codes) + group * kPanelRows;
  const V16 scales = mul(load_f16(at), to_float(load_i8(factors)));
  if constexpr (F::kScales == kEighthByCode) return mul(scales, set1(0.125f));
  return scales;
}

// Loads the scales of group `group` of a chunk.
template <typename F>
IBID_INLINE V16 load_scales(const std::byte* chunk, size_t group) {
  return load_factors<F>(chunk, chunk + F::kLayout.scale_codes_at(), group);
}

template <typename F>
IBID_INLINE V16 load_mins(const std::byte* chunk, size_t group) {
  if constexpr (!F::kSuper) return load_factors<F>(chunk + F::kLayout.mins_at(), chunk, group);
  return neg(load_factors<F>(chunk + F::kLayout.super_mins_at(), chunk + F::kLayout.min_codes_at(), group));
}

constexpr float kOfOffset = -1.0f / 128;
// Returns the factor of a min of 16 columns (kernels.h): scale * float(sum of q). Only the product is rounded.
IBID_INLINE float scaled_half_sum(float scale, int32_t offset16) {
  return scale * (static_cast<float>(offset16) * kOfOffset);
}
// Computes the factors of mins of 16 columns (scaled_half_sum()) for 16 adjacent rows. If only 8 rows are adjacent,
// out[8] to out[15] are undefined. out: 64-byte aligned.
IBID_INLINE void scale_half_sums(const float* scale, const int32_t* offset16, float* out) {
  const V16 sums = mul(to_float(as_int(loadu(reinterpret_cast<const float*>(offset16)))), set1(kOfOffset));
  store(out, mul(loadu(scale), sums));
}

// The bytes of the next panels that are not prefetched yet. A tile prefetches a few cache lines at a time while it
// computes.
struct Ahead {
  const std::byte* at;
  const std::byte* end;
  IBID_INLINE void prefetch_lines(size_t n) {
    for (size_t line = 0; line < n && at < end; ++line, at += 64) prefetch_l2(at);
  }
};

// --- unpacked panels

// kPanels unpacked panels, with one byte per code: the stored code + kBias.
template <size_t kPanels>
struct Unpacked {
  uint8_t* codes;  // [blocks][8 vectors of 4 columns][kPanels][16 rows][4]
  float* scales;   // [blocks][groups][kPanels][16]
  float* mins;     // laid out as the scales; only for types with mins
};

// Unpacks a panel to panel p of the kPanels in `out`.
template <typename F, int kBias, size_t kPanels>
void unpack_panel(const std::byte* panel, B64 table, size_t blocks, size_t p, const Unpacked<kPanels>& out) {
  for (size_t b = 0; b < blocks; ++b) {
    const std::byte* chunk = panel + b / F::kChunkBlocks * F::kChunkBytes;
    const size_t index = b % F::kChunkBlocks;
    const BlockCodes codes = load_codes<F>(chunk + F::kCodesAt + index * F::kBlockBytes, table);
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) {
      const B64 c = kBias == 0 ? codes.at[j] : add_bytes(codes.at[j], kBias);
      store_bytes(out.codes + ((b * 8 + j) * kPanels + p) * 64, c);
    }
    for (size_t group = 0; group < F::kGroups; ++group) {
      const V16 scale = load_scales<F>(chunk, index * F::kGroups + group);
      const size_t at = ((b * F::kGroups + group) * kPanels + p) * kPanelRows;
      store(out.scales + at, scale);
      if constexpr (F::kMins) store(out.mins + at, load_mins<F>(chunk, index * F::kGroups + group));
    }
  }
}

// Bytes of quantised input rows that are read once per group of panels and should stay in L2: half of 2 MB.
constexpr size_t kRowBlockBytes = size_t{1} << 20;
// Number of cache lines of the next panels that a tile prefetches per block of columns.
constexpr size_t kAheadLines = 8;

// Calls visit(Format<...>{}) for a quantised type; does nothing for float panels.
template <typename Visit, size_t... I>
IBID_INLINE void with_format_of(PanelType type, Visit&& visit, std::index_sequence<I...>) {
  const size_t first = kFirstTypes.of[static_cast<size_t>(type)];
  const auto visit_one = [&]<size_t kType>() __attribute__((always_inline)) {
    if constexpr (kFirstTypes.of[kType] == kType) {
      if (first == kType) visit(Format<kernel_format(kType)>{});
    }
  };
  (visit_one.template operator()<I>(), ...);
}
template <typename Visit>
IBID_INLINE void with_format(PanelType type, Visit&& visit) {
  with_format_of(type, visit, std::make_index_sequence<kPanelTypeCount>{});
}

}  // namespace
}  // namespace ibid::IBID_ISA
