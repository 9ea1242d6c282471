// The kernels' shared bodies compiled for AVX2, FMA and F16C. No library code is instantiated here, and
// nothing but fill_avx2() is visible outside: the test isa_symbols holds that.

// The vectors come first: the bodies are written in them.
// clang-format off
#include "kernels/isa/vec_avx2.h"
#include "kernels/attention/attention-inl.h"
#include "kernels/isa/elementwise-inl.h"
#include "kernels/linear/linear-inl.h"
#include "kernels/recurrent/recurrent-inl.h"
// clang-format on
#include "kernels/twins/ref.h"

namespace ibid {

void fill_avx2(Kernels& table) {
  table.name = "avx2";
  avx2::fill_linear(table);
  avx2::fill_elementwise(table);
  avx2::fill_attention(table);
  avx2::fill_recurrent(table);
}

}  // namespace ibid
