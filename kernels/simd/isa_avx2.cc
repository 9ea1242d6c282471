// The kernels' shared bodies compiled for AVX2, FMA and F16C. No library code is instantiated here, and
// nothing but fill_avx2() is visible outside: the test isa_symbols holds that.

// The vectors come first: the bodies are written in them.
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
