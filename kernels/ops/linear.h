// y = x W^T for all rows of a forward pass. Divides panels among threads and selects the kernel.
#pragma once

#include <cstddef>
#include <span>

#include "base/parallel.h"
#include "ibid/numerics.h"
#include "kernels/kernels.h"

namespace ibid {

// The input of linear layers: floats, and int8 if a quantised weight uses the input.
struct LinearInput {
  size_t n_rows = 0;
  size_t n_cols = 0;
  float* values = nullptr;  // [n_rows, stride]
  size_t stride = 0;
  QuantizedRows quantized;  // q == nullptr: no quantised weight uses this input

  // Sets the number of rows to n; the contents are undefined.
  void set_rows(size_t n) {
    n_rows = n;
    quantized.set_rows(n);
  }

  // View of rows [first, first + n) as a separate input. REQUIRES: first is a multiple of kRowGroup.
  LinearInput rows(size_t first, size_t n) const;
};

// The forms of an input that the layers read: floats, int8, or both.
struct InputForms {
  bool values = false;
  bool quantized = false;
};

// Copies row rows[i] of `from` to row i of `to`, bit for bit, in the given forms, and sets `to` to rows.size() rows.
// REQUIRES: both have the same number of columns, and `to` has memory for these forms and rows.
void gather_rows(const LinearInput& from, std::span<const uint32_t> rows, InputForms forms, LinearInput& to);

// View of panels [panels.begin, panels.end) of a matrix as a separate matrix.
PackedMatrix panels_of(const PackedMatrix& w, Range panels);

// Everything that linear() needs except its operands. `scratch` has linear_scratch_bytes() for each thread.
struct LinearContext {
  const Kernels* kernels = nullptr;
  Numerics numerics = Numerics::kExact;
  std::byte* scratch = nullptr;
  size_t scratch_stride = 0;  // bytes from one thread's scratch to the next
};

// Every worker of a parallel region calls this function with the same arguments; each computes its share of the
// outputs. REQUIRES: a barrier between writing x and the call, and another between the call and reading y. y:
// [x.n_rows, y_stride], y_stride >= 16 * w.n_panels().
void linear(const Worker& worker, const LinearContext& context, const PackedMatrix& w, const LinearInput& x, float* y,
            size_t y_stride);

// Computes a part of a linear layer, chosen by the caller: outputs [16 * panels.begin, 16 * panels.end). y_stride >=
// 16 * panels.size(); only these outputs need memory.
void linear_panels(const Worker& worker, const LinearContext& context, const PackedMatrix& w, const LinearInput& x,
                   Range panels, float* y, size_t y_stride);

// View of a float buffer of rows.
struct Rows {  // [n_rows, stride]
  float* data = nullptr;
  size_t stride = 0;
  float* row(size_t i) const { return data + i * stride; }
};

}  // namespace ibid
