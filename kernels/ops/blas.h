// Float layers through OpenBLAS, for Numerics::kFast only: its sums have an order of their own, so results
// agree with our kernels by tolerance and not bit for bit.
//
// The library is loaded at first use, not linked: Debian's build takes new Xeons for a Prescott (a fifth of
// the speed) unless OPENBLAS_CORETYPE is set before it loads. Without the library, or with one that still
// runs on the wrong core, blas_available() is false and callers keep to our kernels.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/kernels.h"

namespace ibid {

// From how many rows on it is faster than our kernels, as far as that was measured (docs/benchmarks.md, "Float
// weights"): with AVX2 alone 128 of F16 weights and 512 of F32; with fewer, what it takes to pack the weights at each
// call costs more than it gains. Never with AVX-512. Depends on the active instruction set and the weights alone.
// REQUIRES: panel_is_float(weights).
size_t blas_rows(PanelType weights);

// Loads the library at the first call, which sets environment variables: make it before other threads start.
bool blas_available();
// Why it is not; empty if it is.
std::string blas_unavailable_reason();

// As Kernels::linear_float, by sgemm on one thread; threads may call it at once. `kernels` unpacks the
// weights. scratch: blas_scratch_bytes(w.n_cols), 64-byte aligned. REQUIRES: blas_available(),
// panel_is_float(w.type).
void blas_linear(const Kernels& kernels, const PackedMatrix& w, const float* x, size_t x_stride,
                 size_t n_rows, Range panels, float* y, size_t y_stride, std::byte* scratch);
size_t blas_scratch_bytes(size_t n_cols);

}  // namespace ibid
