// Packs rows of weights into panels, and unpacks single rows. Exact: unpacking returns the values that
// decoding the file returns. Independent of file formats: rows are passed as the integer codes and scales that a
// decoder of quantised blocks produces, or as floats.
// Stateless; different panels may be packed from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/layout/panel.h"

namespace ibid {

// Up to 16 rows for one panel, row after row. Only the arrays that the type needs are set.
struct PanelRows {
  size_t n_rows = kPanelRows;  // 1..16; missing rows of the panel are zeroed
  // Quantised types; groups = n_cols / panel_format(type).group.
  std::span<const int8_t> codes;  // [n_rows, n_cols]  without offset: -8..7 for kP4, 0..15 for kP4m; types with a
                                  // table: the table's values
  std::span<const float> scales;  // [n_rows, groups]  exactly representable in the 16 bits that the panel stores
  std::span<const float> mins;    // [n_rows, groups]  likewise; types with mins
  // Types with super scales instead of scales and mins, chunks = n_cols / 256 rounded up: scale = float(super_scales) *
  // scale_codes, min = -(float(super_mins) * min_codes); the scale times 1/8 for kEighthByCode.
  std::span<const uint16_t> super_scales, super_mins;  // [n_rows, chunks] halves; super_mins: types with mins
  std::span<const int8_t> scale_codes, min_codes;      // [n_rows, groups]; min_codes: types with mins
  // Float types.
  std::span<const uint16_t> halves;  // [n_rows, n_cols]  kPH, kPB: the file's bits
  std::span<const float> floats;     // [n_rows, n_cols]  kPF
  // kPE4, kPE5: codes are the bytes, scales the file's [n_rows, n_cols / 32].
};

// Writes one panel: panel_bytes(type, n_cols) bytes at out, 64-byte aligned.
// REQUIRES: n_cols is a multiple of 32 for quantised and 8-bit float types; codes are in the type's range.
void pack_panel(PanelType type, size_t n_cols, const PanelRows& rows, std::byte* out);

// Unpacks one row of W to floats (embedding lookup): s c, or s c + m, each operation rounded. out: n_cols floats.
void unpack_row(const PackedMatrix& w, size_t row, float* out);

}  // namespace ibid
