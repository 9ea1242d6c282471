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

}  // namespace ibid
