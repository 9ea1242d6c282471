// Makes panels of floats from rows of the same floats. Nothing is converted, only put in another order. Stateless;
// different panels may be packed from several threads.
#pragma once

#include <cstddef>

#include "kernels/layout/lane_words.h"
#include "kernels/layout/panel.h"

namespace ibid {

// Writes one panel of `type` from n_rows rows that begin at `rows`. REQUIRES: a panel of floats; 1 to 16 rows.
void pack_float_panel(PanelType type, lanes::Blocks& rows, size_t n_rows, size_t n_cols, std::byte* out);

}  // namespace ibid
