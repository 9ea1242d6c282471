// The kernels' shared bodies compiled for AVX2, FMA, F16C and AVX-VNNI. No library code is instantiated here, and
// nothing but fill_avxvnni() is visible outside: the test isa_symbols holds that.

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

void fill_avxvnni(Kernels& table) {
  table.name = "avxvnni";
  avxvnni::fill_linear(table);
  avxvnni::fill_elementwise(table);
  avxvnni::fill_attention(table);
  avxvnni::fill_recurrent(table);
}

}  // namespace ibid
