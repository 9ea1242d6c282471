// The kernels' shared bodies compiled for AVX-512 F, BW, VL, DQ and VNNI. No library code is
// instantiated here, and nothing but fill_avx512() is visible outside: the test isa_symbols holds that.

// The vectors come first: the bodies are written in them.
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
