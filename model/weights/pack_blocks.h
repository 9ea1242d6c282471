// Packs rows of a file straight into a panel. The result is, byte for byte, what the decoder of the blocks
// (weights/block_formats.h) and the packer of codes (kernels/layout/pack.h) make of the same rows; those two are the
// definition. This does it in one pass that keeps up with memory, because loading spends its time here.
//
// Types whose codes stand in a codebook are packed by the definition itself (model/weights/pack_decoded.h).
//
// It works on 16 rows at once: the same four bytes of each row lie side by side, as the panel will have them, and
// every step is the same arithmetic in 16 lanes.
//
// Stateless; different panels may be packed from several threads. Bytes may be unaligned, and may change meanwhile.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace ibid {

// Whether the panel of panel_type_for(dtype) holds the file's own numbers: true of floats and of all quantised types.
bool can_pack_blocks(DType dtype);

// Writes one panel of panel_type_for(dtype): panel_bytes() of them at out, 64-byte aligned.
// rows: 1 to 16 rows of n_cols values each, as they are in the file; the panel's missing rows become zero.
// REQUIRES: can_pack_blocks(dtype); n_cols is a whole number of blocks.
void pack_blocks(DType dtype, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out);

}  // namespace ibid
