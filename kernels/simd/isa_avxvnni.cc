// The shared kernel bodies compiled for AVX2, FMA, F16C and AVX-VNNI. No library code is instantiated here, and only
// fill_avxvnni() has external linkage: the test isa_symbols checks both.

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

void fill_avxvnni(Kernels& table) {
  table.name = "avxvnni";
  avxvnni::fill_linear(table);
  avxvnni::fill_elementwise(table);
  avxvnni::fill_attention(table);
  avxvnni::fill_recurrent(table);
}

}  // namespace ibid
