// Float layers computed by OpenBLAS, for Numerics::kFast only: OpenBLAS sums in another order, so results agree with
// our kernels within a tolerance, not bit for bit.
//
// The library is loaded at first use, not linked, because Debian's build takes new Xeons for a Prescott (a fifth of the
// speed) unless OPENBLAS_CORETYPE is set before loading. Without the library, or if it still selects the wrong core
// type, blas_available() is false and callers use our kernels.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/kernels.h"

namespace ibid {

// Minimum number of rows at which BLAS was measured to be faster than our kernels (docs/benchmarks.md, "Float
// weights"). With AVX2 it is 512 for F32 weights and 128 for other types: for fewer rows, packing the weights at each
// call costs more than BLAS gains. With AVX-512 BLAS is never faster. Depends only on the active instruction set and
// the weight type. REQUIRES: panel_is_float(weights).
size_t blas_rows(PanelType weights);

// Loads the library at the first call, which sets an environment variable: make that call before other threads start.
bool blas_available();
// Why blas_available() is false; empty if it is true.
std::string blas_unavailable_reason();

// As Kernels::linear_float, with single-threaded sgemm; threads may call it concurrently. `kernels` unpacks the
// weights. scratch: blas_scratch_bytes(w.n_cols), 64-byte aligned. REQUIRES: blas_available(),
// panel_is_float(w.type).
void blas_linear(const Kernels& kernels, const PackedMatrix& w, const float* x, size_t x_stride, size_t n_rows,
                 Range panels, float* y, size_t y_stride, std::byte* scratch);
size_t blas_scratch_bytes(size_t n_cols);

}  // namespace ibid
