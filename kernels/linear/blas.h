// Float layers through OpenBLAS, for Numerics::kFast only: its sums have an order of their own, so results
// agree with our kernels by tolerance and not bit for bit.
//
// The library is loaded at first use, not linked: Debian's build takes new Xeons for a Prescott (a fifth of
// the speed) unless OPENBLAS_CORETYPE is set before it loads. Without the library, or with one that still
// runs on the wrong core, blas_available() is false and callers keep to our kernels.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace ibid {

// With fewer rows the library's own packing costs more than all else. Where it was measured (AVX-512) our kernels
// are ahead at 32, 128 and 512 rows: F16 weights, 3072 x 576, by 307 to 147, 300 to 227 and 285 to 247 GFLOP/s
// (docs/benchmarks.md, "Float weights").
inline constexpr size_t kBlasRows = 32;

// Loads the library at the first call, which sets environment variables: make it before other threads start.
bool blas_available();
// The core that the library runs on ("SkylakeX"); "" while blas_available() is false.
const char* blas_core_name();

// As Kernels::linear_float, by sgemm on one thread; threads may call it at once. `kernels` unpacks the
// weights. scratch: blas_scratch_bytes(w.n_cols), 64-byte aligned. REQUIRES: blas_available(),
// panel_is_float(w.type).
void blas_linear(const Kernels& kernels, const PackedMatrix& w, const float* x, size_t x_stride,
                 size_t n_rows, Range panels, float* y, size_t y_stride, std::byte* scratch);
size_t blas_scratch_bytes(size_t n_cols);

}  // namespace ibid
