// The kernels' shared bodies compiled for AVX2, FMA, F16C and AVX-VNNI. No library code is instantiated here, and
// nothing but fill_avxvnni() is visible outside: the test isa_symbols holds that.

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

void fill_avxvnni(Kernels& table) {
  table.name = "avxvnni";
  avxvnni::fill_linear(table);
  avxvnni::fill_elementwise(table);
  avxvnni::fill_attention(table);
  avxvnni::fill_recurrent(table);
}

}  // namespace ibid
