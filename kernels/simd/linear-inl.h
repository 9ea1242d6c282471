// The linear layers' functions of a table. Included by isa_*.cc.

#include "kernels/simd/linear_float-inl.h"
#include "kernels/simd/linear_int8-inl.h"
#include "kernels/simd/quantize-inl.h"

namespace ibid::IBID_ISA {
namespace {

void fill_linear(Kernels& table) {
  table.linear_int8 = linear_int8;
  table.linear_float = linear_float;
  table.widen_panels = widen_panels;
  table.quantize_blocks = quantize_blocks;
}

}  // namespace
}  // namespace ibid::IBID_ISA
