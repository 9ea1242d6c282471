// Packs rows of a file straight into a panel. The result is, byte for byte, what the decoder of the blocks
// (weights/block_formats.h) and the packer of codes (kernels/layout/pack.h) make of the same rows; those two are the
// definition. This does it in one pass that keeps up with memory, because loading spends its time here.
//
// Types whose codes stand in a codebook are packed by the definition itself, in pack_decoded.cc, and floats are only
// put in another order.
//
// It works on 16 rows at once: the same four bytes of each row lie side by side, as the panel will have them, and
// every step is the same arithmetic in 16 lanes.
//
// Stateless; different panels may be packed from several threads. Bytes may be unaligned, and may change meanwhile.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "kernels/layout/lane_words.h"
#include "kernels/layout/panel.h"

namespace ibid {

// Whether the panel of panel_type_for(dtype) holds the file's own numbers: true of floats and of all quantised types.
bool can_pack_blocks(DType dtype);

// Writes one panel of panel_type_for(dtype): panel_bytes() of them at out, 64-byte aligned.
// rows: 1 to 16 rows of n_cols values each, as they are in the file; the panel's missing rows become zero.
// REQUIRES: can_pack_blocks(dtype); n_cols is a whole number of blocks.
void pack_blocks(DType dtype, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out);

// --- pack_decoded.cc: the parts of pack_blocks() that take two steps, the decoder of the blocks and the packer of
// codes.

// Writes one panel of panel_type_for(dtype), as pack_blocks() does. REQUIRES: a quantised panel; 1 to 16 rows.
void pack_decoded(DType dtype, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out);

// The same for panels of floats of a byte.
void pack_f8(PanelType type, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out);

// Writes one panel of `type` from n_rows rows that begin at `rows`. REQUIRES: a panel of floats; 1 to 16 rows.
void pack_float_panel(PanelType type, lanes::Blocks& rows, size_t n_rows, size_t n_cols, std::byte* out);

}  // namespace ibid
