// Rows: a float buffer of rows. It owns nothing.
#pragma once

#include <cstddef>

namespace ibid {

struct Rows {   // [n_rows, stride]
  float* data = nullptr;
  size_t stride = 0;
  float* row(size_t i) const { return data + i * stride; }
};

}  // namespace ibid
