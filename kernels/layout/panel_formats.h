// Table of panel types with their names and code formats; kernels/layout/panel.h describes the bytes of a panel. Sizes,
// packers, reference kernels and the kernels of every instruction set are derived from the rows of this table.
//
// Everything is constexpr or always inlined, because files that are compiled for special instruction sets include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/number_formats.h"

namespace ibid {

inline constexpr size_t kPanelRows = 16;
inline constexpr size_t kQuantBlock = 32;       // columns per activation scale
inline constexpr size_t kChunkCols = 64;        // columns per chunk; kernels get rows padded to a multiple of this
inline constexpr size_t kSuperChunkCols = 256;  // columns per chunk with super scales

enum class PanelType : uint8_t {
  kP4,
  kP4m,
  kP4k,
  kP5,
  kP5m,
  kP5k,
  kP8,
  kP6k,
  kP2k,  // the codes of the types up to here are integers
  kP4e,
  kP4f,
  kP4n,
  kP4nk,
  kP3s,
  kP3x,
  kP2x,
  kP2s,
  kP1s,
  kP1m,  // the codes of kP4e to kP1m are indices into a table
  kPH,
  kPB,
  kPE4,
  kPE5,
  kPF,  // floats
};
inline constexpr size_t kPanelTypeCount = static_cast<size_t>(PanelType::kPF) + 1;

[[gnu::always_inline]] constexpr bool panel_is_float(PanelType type) { return type >= PanelType::kPH; }

// Code format of a quantised panel.
struct PanelFormat {
  size_t group;  // columns per scale, and per min: 32 or 16
  int bits;      // bits of a code: 2, 4, 5, 6, 8
  int offset;    // stored code = code + offset; if there is a table, kernels add the offset to its values
  bool has_mins;
  ScaleKind scales;  // kind of the scales; mins are stored in the same way
  CodeTable table = CodeTable::kNoTable;

  bool operator==(const PanelFormat&) const = default;
  // True if scale and min of a group are integer codes times a 16-bit float of the chunk; otherwise each is a 16-bit
  // number.
  constexpr bool super_scales() const { return scales == ScaleKind::kHalfByCode || scales == ScaleKind::kEighthByCode; }
  constexpr float scale_factor() const { return scales == ScaleKind::kEighthByCode ? 0.125f : 1.0f; }
  // Smallest and largest code; for types with a table, smallest and largest value in the table.
  int min_code() const;
  int max_code() const;
  constexpr size_t chunk_cols() const { return super_scales() ? kSuperChunkCols : kChunkCols; }
  constexpr size_t chunk_blocks() const { return chunk_cols() / kQuantBlock; }
  constexpr size_t groups_per_chunk() const { return chunk_cols() / group; }
  // Number of scales in a chunk; equals the number of mins if the type has mins.
  constexpr size_t group_codes() const { return groups_per_chunk() * kPanelRows; }
  // Byte offsets of the parts of a chunk.
  constexpr size_t mins_at() const { return 2 * group_codes(); }     // types without super scales: the mins
  constexpr size_t super_mins_at() const { return 2 * kPanelRows; }  // types with super scales: dmin (panel.h)
  constexpr size_t scale_codes_at() const { return 2 * kPanelRows * (has_mins ? 2 : 1); }
  constexpr size_t min_codes_at() const { return scale_codes_at() + group_codes(); }
  constexpr size_t codes_at() const {
    const size_t sides = has_mins ? 2 : 1;
    const size_t bytes = super_scales() ? scale_codes_at() + sides * group_codes() : sides * mins_at();
    return (bytes + 63) / 64 * 64;
  }
  constexpr size_t block_code_bytes() const { return kQuantBlock * kPanelRows * static_cast<size_t>(bits) / 8; }
  constexpr size_t chunk_bytes() const { return codes_at() + chunk_blocks() * block_code_bytes(); }
};

// A row of the table.
struct PanelInfo {
  PanelType type;
  const char* name;
  PanelFormat format;      // for quantised types
  size_t bytes_per_value;  // for float types
};

// Indexed by PanelType.
inline constexpr PanelInfo kPanels[] = {
    {PanelType::kP4, "P4", {32, 4, 8, false, ScaleKind::kHalf}, 0},
    {PanelType::kP4m, "P4m", {32, 4, 0, true, ScaleKind::kHalf}, 0},
    {PanelType::kP4k, "P4k", {32, 4, 0, true, ScaleKind::kHalfByCode}, 0},
    {PanelType::kP5, "P5", {32, 5, 16, false, ScaleKind::kHalf}, 0},
    {PanelType::kP5m, "P5m", {32, 5, 0, true, ScaleKind::kHalf}, 0},
    {PanelType::kP5k, "P5k", {32, 5, 0, true, ScaleKind::kHalfByCode}, 0},
    {PanelType::kP8, "P8", {32, 8, 128, false, ScaleKind::kHalf}, 0},
    {PanelType::kP6k, "P6k", {16, 6, 32, false, ScaleKind::kHalfByCode}, 0},
    {PanelType::kP2k, "P2k", {16, 2, 0, true, ScaleKind::kHalfByCode}, 0},
    {PanelType::kP4e, "P4e", {32, 4, 64, false, ScaleKind::kBfloat, CodeTable::kFp4}, 0},
    {PanelType::kP4f, "P4f", {16, 4, 64, false, ScaleKind::kHalf, CodeTable::kFp4}, 0},
    {PanelType::kP4n, "P4n", {32, 4, 128, false, ScaleKind::kHalf, CodeTable::kIq4}, 0},
    {PanelType::kP4nk, "P4nk", {32, 4, 128, false, ScaleKind::kHalfByCode, CodeTable::kIq4}, 0},
    {PanelType::kP3s, "P3s", {32, 4, 64, false, ScaleKind::kEighthByCode, CodeTable::kIq3s}, 0},
    {PanelType::kP3x, "P3x", {32, 4, 64, false, ScaleKind::kEighthByCode, CodeTable::kIq3xxs}, 0},
    {PanelType::kP2x, "P2x", {32, 4, 64, false, ScaleKind::kEighthByCode, CodeTable::kIq2}, 0},
    {PanelType::kP2s, "P2s", {16, 4, 64, false, ScaleKind::kEighthByCode, CodeTable::kIq2}, 0},
    {PanelType::kP1s, "P1s", {32, 4, 64, false, ScaleKind::kEighthByCode, CodeTable::kIq1}, 0},
    {PanelType::kP1m, "P1m", {16, 4, 64, false, ScaleKind::kEighthByCode, CodeTable::kIq1}, 0},
    {PanelType::kPH, "PH", {}, 2},
    {PanelType::kPB, "PB", {}, 2},
    {PanelType::kPE4, "PE4", {}, 1},
    {PanelType::kPE5, "PE5", {}, 1},
    {PanelType::kPF, "PF", {}, 4},
};
static_assert([] {
  if (std::size(kPanels) != kPanelTypeCount) return false;
  for (size_t i = 0; i < kPanelTypeCount; ++i) {
    if (static_cast<size_t>(kPanels[i].type) != i) return false;
  }
  return true;
}());

}  // namespace ibid
