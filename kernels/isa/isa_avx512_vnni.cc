// The kernels' shared bodies compiled for AVX-512 F, BW, VL, DQ and VNNI. No library code is
// instantiated here, and nothing but fill_avx512() is visible outside: the test isa_symbols holds that.

// The vectors come first: the bodies are written in them.
// clang-format off
#include "kernels/isa/vec_avx512.h"
#include "kernels/attention/attention-inl.h"
#include "kernels/isa/elementwise-inl.h"
#include "kernels/linear/linear-inl.h"
#include "kernels/recurrent/recurrent-inl.h"
// clang-format on
#include "kernels/twins/ref.h"

namespace ibid {

void fill_avx512(Kernels& table) {
  table.name = "avx512";
  avx512::fill_linear(table);
  avx512::fill_elementwise(table);
  avx512::fill_attention(table);
  avx512::fill_recurrent(table);
}

}  // namespace ibid
