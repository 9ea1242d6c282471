// Packs rows of weights into panels, and unpacks single rows. Exact: unpacking returns the values that decoding the
// file returns. Independent of file formats: rows are given as the integer codes and scales that a decoder of quantised
// blocks returns, or as floats. Stateless; different panels may be packed on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/layout/panel.h"

namespace ibid {

// Up to 16 rows for one panel, row after row. Only the arrays that the panel type needs are set.
struct PanelRows {
  size_t n_rows = kPanelRows;  // 1..16; the remaining rows of the panel are zeroed
  // Arrays for quantised types. In their shapes, groups = n_cols / panel_format(type).group.
  std::span<const int8_t> codes;  // [n_rows, n_cols]  offset not added: -8..7 (kP4), 0..15 (kP4m), or table values
  std::span<const float> scales;  // [n_rows, groups]  exactly representable in the 16 bits that the panel stores
  std::span<const float> mins;    // [n_rows, groups]  exact like the scales; for types with mins
  // For types with super scales instead of scales and mins; chunks = n_cols / 256 rounded up. scale =
  // float(super_scales) * scale_codes (times 1/8 for kEighthByCode); min = -(float(super_mins) * min_codes).
  std::span<const uint16_t> super_scales, super_mins;  // [n_rows, chunks] halves; super_mins: for types with mins
  std::span<const int8_t> scale_codes, min_codes;      // [n_rows, groups]; min_codes: for types with mins
  // For float types.
  std::span<const uint16_t> halves;  // [n_rows, n_cols]  kPH, kPB: 16-bit floats, copied from the file unchanged
  std::span<const float> floats;     // [n_rows, n_cols]  kPF
  // For kPE4 and kPE5, `codes` holds the file's bytes, and `scales` holds the file's scales, [n_rows, n_cols / 32].
};

// Writes one panel to `out`: panel_bytes(type, n_cols) bytes, 64-byte aligned. REQUIRES: n_cols is a multiple of 32 for
// quantised and 8-bit float types; codes are in the type's range.
void pack_panel(PanelType type, size_t n_cols, const PanelRows& rows, std::byte* out);

// Unpacks one row of W to n_cols floats, for embedding lookup: scale * code, or scale * code + min, each operation
// rounded.
void unpack_row(const PackedMatrix& w, size_t row, float* out);

}  // namespace ibid
