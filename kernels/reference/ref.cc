#include "kernels/reference/ref.h"

namespace ibid {

float reduce_add16(const float* lanes) {
  float eight[8], four[4];
  for (size_t i = 0; i < 8; ++i) eight[i] = lanes[i] + lanes[i + 8];
  for (size_t i = 0; i < 4; ++i) four[i] = eight[i] + eight[i + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

void fill_ref(Kernels& table) {
  table.name = "ref";
  fill_ref_linear(table);
  fill_ref_elementwise(table);
  fill_ref_attention(table);
  fill_ref_recurrent(table);
}

void fill_reference(Kernels& table) {
  fill_ref(table);  // the functions that have no version in double
  table.name = "reference";
  fill_reference_linear(table);
  fill_reference_elementwise(table);
  fill_reference_attention(table);
  fill_reference_recurrent(table);
}

}  // namespace ibid
