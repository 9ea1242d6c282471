#include "base/tensor_view.h"

namespace ibid {

std::string Shape::to_string() const {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

TensorView TensorView::row_range(uint64_t first, uint64_t n) const {
  TensorView part = *this;
  part.shape = {{n, shape[shape.rank - 1]}, 2};
  part.first_row = first_row + first;
  if (source == nullptr) part.data = data.subspan(first * row_bytes(), n * row_bytes());
  return part;
}

}  // namespace ibid
