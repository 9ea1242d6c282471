// Makes a panel from rows of quantised blocks in two steps: the decoder of the blocks (weights/block_formats.h), then
// the packer of codes (kernels/layout/pack.h); and from rows of floats, which are only put in another order.
// model/weights/pack_blocks.h does the former faster for the types that most files have. Stateless; different panels
// may be packed from several threads.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "kernels/layout/lane_words.h"
#include "kernels/layout/panel.h"

namespace ibid {

// Writes one panel of panel_type_for(dtype), as pack_blocks() does. REQUIRES: a quantised panel; 1 to 16 rows.
void pack_decoded(DType dtype, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out);

// The same for panels of floats of a byte.
void pack_f8(PanelType type, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out);

// Writes one panel of `type` from n_rows rows that begin at `rows`. REQUIRES: a panel of floats; 1 to 16 rows.
void pack_float_panel(PanelType type, lanes::Blocks& rows, size_t n_rows, size_t n_cols, std::byte* out);

}  // namespace ibid
