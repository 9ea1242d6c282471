// Repacks a tensor of a model file into panels. Exact: unpacking gives the values that decoding the
// file gives.
#pragma once

#include <span>

#include "base/result.h"
#include "base/tensor_view.h"
#include "kernels/panel.h"

namespace ibid {

// Packs `tensor` [n_rows, n_cols] (row-major view) as `type` into out (packed_bytes() bytes, 64-byte aligned),
// panels of `panels` only, so that threads can share the work.
// type is panel_type_for(tensor.dtype), or kPF for any dtype that can be decoded.
void pack_panels(const TensorView& tensor, RowOrder order, PanelType type, Range panels, std::byte* out);

// One row of W as floats (embedding lookup). out: n_cols floats.
void unpack_row(const PackedMatrix& w, size_t row, float* out);

}  // namespace ibid
