// Reading quantised panels (kernels/linear/panel.h): the codes of a block of 32 columns in vectors, and scales and
// mins as floats, written once against vec_*.h for every format. Included by the linear layers' bodies.

#include "kernels/kernels.h"

namespace ibid::IBID_ISA {
namespace {

// A row of the table in kernels/linear/panel.h. kTable: codes are looked up in 16 bytes.
template <int kBits_, int kOffset_, bool kMins_, size_t kGroup_, ScaleKind kScales_, bool kTable_ = false>
struct Format {
  static constexpr int kBits = kBits_, kOffset = kOffset_;
  static constexpr bool kMins = kMins_, kTable = kTable_;
  static constexpr bool kSmall = kOffset < 128;  // codes, or the table's bytes, are below 128
  static constexpr ScaleKind kScales = kScales_;
  static constexpr size_t kGroup = kGroup_;
  static constexpr size_t kGroups = kQuantBlock / kGroup;  // per block of 32 columns
  static constexpr bool kHalfMins = kMins && kGroups == 2;  // mins multiply the sums of half a block
  static constexpr PanelFormat kLayout{kGroup, kBits, kOffset, kMins, kScales};
  static constexpr bool kSuper = kLayout.super_scales();
  static constexpr size_t kCodesAt = kLayout.codes_at();
  static constexpr size_t kBlockBytes = kLayout.block_code_bytes();
  static constexpr size_t kChunkBytes = kLayout.chunk_bytes();
  static constexpr size_t kChunkBlocks = kLayout.chunk_blocks();
  IBID_INLINE static size_t panel_bytes(size_t blocks) {
    return (blocks + kChunkBlocks - 1) / kChunkBlocks * kChunkBytes;
  }
};

using enum ScaleKind;
using P4 = Format<4, 8, false, 32, kHalf>;
using P4m = Format<4, 0, true, 32, kHalf>;
using P4k = Format<4, 0, true, 32, kHalfByCode>;
using P5 = Format<5, 16, false, 32, kHalf>;
using P5m = Format<5, 0, true, 32, kHalf>;
using P5k = Format<5, 0, true, 32, kHalfByCode>;
using P8 = Format<8, 128, false, 32, kHalf>;
using P6k = Format<6, 32, false, 16, kHalfByCode>;
using P2k = Format<2, 0, true, 16, kHalfByCode>;
using P4e = Format<4, 64, false, 32, kBfloat, true>;
using P4f = Format<4, 64, false, 16, kHalf, true>;
using P4n = Format<4, 128, false, 32, kHalf, true>;
using P4nk = Format<4, 128, false, 32, kHalfByCode, true>;
using TableBy32 = Format<4, 64, false, 32, kEighthByCode, true>;  // P3s, P3x, P2x, P1s
using TableBy16 = Format<4, 64, false, 16, kEighthByCode, true>;  // P2s, P1m

// The bytes of a type's table in every quarter of a vector.
template <typename F>
IBID_INLINE B64 load_table(PanelType type) {
  if constexpr (F::kTable) return load_bytes(panel_lookup(type));
  return B64{};
}

// --- one block of a panel

// Vector j: the codes of columns 4 j .. 4 j + 3.
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

// The 16 bits at `halves`, times the int8 codes where there are any.
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

// Of group `group` of a chunk.
template <typename F>
IBID_INLINE V16 load_scales(const std::byte* chunk, size_t group) {
  return load_factors<F>(chunk, chunk + F::kLayout.scale_codes_at(), group);
}

template <typename F>
IBID_INLINE V16 load_mins(const std::byte* chunk, size_t group) {
  if constexpr (!F::kSuper) return load_factors<F>(chunk + F::kLayout.mins_at(), chunk, group);
  return neg(load_factors<F>(chunk + F::kLayout.super_mins_at(), chunk + F::kLayout.min_codes_at(), group));
}

// What the min of 16 columns multiplies, by the contract: scale * float(sum of q). Only the product is rounded.
constexpr float kOfOffset = -1.0f / 128;
IBID_INLINE float scaled_half_sum(float scale, int32_t offset16) {
  return scale * (static_cast<float>(offset16) * kOfOffset);
}
// Of 16 rows that lie side by side, or of 8 and whatever lies behind them. out: 64-byte aligned.
IBID_INLINE void scale_half_sums(const float* scale, const int32_t* offset16, float* out) {
  const V16 sums = mul(to_float(as_int(loadu(reinterpret_cast<const float*>(offset16)))), set1(kOfOffset));
  store(out, mul(loadu(scale), sums));
}

// The panels to be unpacked next, still to be asked for: a little at a time, while a tile computes.
struct Ahead {
  const std::byte* at;
  const std::byte* end;
  IBID_INLINE void prefetch_lines(size_t n) {
    for (size_t line = 0; line < n && at < end; ++line, at += 64) prefetch_l2(at);
  }
};

// --- unpacked panels

// kPanels unpacked panels, a byte per code: the stored code + kBias.
template <size_t kPanels>
struct Unpacked {
  uint8_t* codes;  // [blocks][8 vectors of 4 columns][kPanels][16 rows][4]
  float* scales;   // [blocks][groups][kPanels][16]
  float* mins;     // as scales; types with mins
};

// Panel p of the kPanels in `out`.
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

// Quantised rows that one pass over the panels reads again and again: half of a 2 MB L2.
constexpr size_t kRowBlockBytes = size_t{1} << 20;
// Lines that a tile asks for per block of columns, of the panels that come next.
constexpr size_t kAheadLines = 8;

// Calls visit(Format{}) for a quantised type; float panels are linear_float's.
template <typename Visit>
IBID_INLINE void with_format(PanelType type, Visit&& visit) {
  switch (type) {
    case PanelType::kP4: return visit(P4{});
    case PanelType::kP4m: return visit(P4m{});
    case PanelType::kP4k: return visit(P4k{});
    case PanelType::kP5: return visit(P5{});
    case PanelType::kP5m: return visit(P5m{});
    case PanelType::kP5k: return visit(P5k{});
    case PanelType::kP8: return visit(P8{});
    case PanelType::kP6k: return visit(P6k{});
    case PanelType::kP2k: return visit(P2k{});
    case PanelType::kP4e: return visit(P4e{});
    case PanelType::kP4f: return visit(P4f{});
    case PanelType::kP4n: return visit(P4n{});
    case PanelType::kP4nk: return visit(P4nk{});
    case PanelType::kP3s:
    case PanelType::kP3x:
    case PanelType::kP2x:
    case PanelType::kP1s: return visit(TableBy32{});
    case PanelType::kP2s:
    case PanelType::kP1m: return visit(TableBy16{});
    case PanelType::kPH:
    case PanelType::kPB:
    case PanelType::kPE4:
    case PanelType::kPE5:
    case PanelType::kPF: return;
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
