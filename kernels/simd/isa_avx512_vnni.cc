// The shared kernel bodies compiled for AVX-512 F, BW, VL, DQ and VNNI. No library code is instantiated
// here, and only fill_avx512() has external linkage: the test isa_symbols checks both.

// Vector types are included first, because the kernel bodies use them.
// clang-format off
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/attention-inl.h"
#include "kernels/simd/elementwise-inl.h"
#include "kernels/simd/linear-inl.h"
#include "kernels/simd/recurrent-inl.h"
// clang-format on
#include "kernels/reference/ref.h"

namespace ibid {

void fill_avx512(Kernels& table) {
  table.name = "avx512";
  avx512::fill_linear(table);
  avx512::fill_elementwise(table);
  avx512::fill_attention(table);
  avx512::fill_recurrent(table);
}

}  // namespace ibid
