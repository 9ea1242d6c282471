// Packs rows of a file directly into a panel. The result is defined as that of two steps: the block decoder
// (weights/block_formats.h), then the packer of codes (kernels/layout/pack.h). pack_blocks() produces the same bytes in
// one pass at memory speed, because most of the loading time is spent here.
//
// Types with codebooks are packed by the two defining steps, in pack_decoded.cc; floats are only reordered.
//
// Works on 16 rows at once: the same four bytes of each row are adjacent, as in the panel, and every step is the same
// arithmetic in 16 lanes.
//
// Stateless; threads may pack different panels. Input bytes may be unaligned, and may change during the call.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "kernels/layout/lane_words.h"
#include "kernels/layout/panel.h"

namespace ibid {

// True if panel_type_for(dtype) keeps the file's own numbers, which it does for floats and all quantised types.
bool can_pack_blocks(DType dtype);

// Writes one panel of panel_type_for(dtype) to `out`: panel_bytes() bytes, 64-byte aligned. rows: 1 to 16 rows of
// n_cols values each, as in the file; the remaining rows of the panel become zero.
// REQUIRES: can_pack_blocks(dtype); n_cols is a whole number of blocks.
void pack_blocks(DType dtype, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out);

// --- pack_decoded.cc: the formats that are packed in two steps, by the block decoder and the packer of codes.

// Writes one panel of panel_type_for(dtype), as pack_blocks() does. REQUIRES: a quantised panel; 1 to 16 rows.
void pack_decoded(DType dtype, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out);

// Writes one panel of 8-bit floats. REQUIRES: 1 to 16 rows.
void pack_f8(PanelType type, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out);

// Writes one panel of `type` from the first n_rows of `rows`. REQUIRES: a panel of floats; 1 to 16 rows.
void pack_float_panel(PanelType type, lanes::RowCursor& rows, size_t n_rows, size_t n_cols, std::byte* out);

}  // namespace ibid
