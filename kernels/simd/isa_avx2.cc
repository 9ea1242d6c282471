// The shared kernel bodies compiled for AVX2, FMA and F16C. No library code is instantiated here, and only
// fill_avx2() has external linkage: the test isa_symbols checks both.

// Vector types are included first, because the kernel bodies use them.
// clang-format off
#include "kernels/simd/vec_avx2.h"
#include "kernels/simd/attention-inl.h"
#include "kernels/simd/elementwise-inl.h"
#include "kernels/simd/linear-inl.h"
#include "kernels/simd/recurrent-inl.h"
// clang-format on
#include "kernels/reference/ref.h"

namespace ibid {

void fill_avx2(Kernels& table) {
  table.name = "avx2";
  avx2::fill_linear(table);
  avx2::fill_elementwise(table);
  avx2::fill_attention(table);
  avx2::fill_recurrent(table);
}

}  // namespace ibid
