// y = x W^T for all rows of a forward pass: shares panels among threads and picks the kernel.
#pragma once

#include <cstddef>
#include <span>

#include "base/parallel.h"
#include "ibid/numerics.h"
#include "kernels/kernels.h"

namespace ibid {

// The input of linear layers: floats, and int8 where a quantised weight will read them.
struct LinearInput {
  size_t n_rows = 0;
  size_t n_cols = 0;
  float* values = nullptr;  // [n_rows, stride]
  size_t stride = 0;
  QuantizedRows quantized;  // q == nullptr: no consumer is quantised

  // Room for n rows, which nothing is known of yet.
  void set_rows(size_t n) {
    n_rows = n;
    quantized.set_rows(n);
  }

  // Rows [first, first + n) as an input of their own, in place. REQUIRES: first is a multiple of kRowGroup.
  LinearInput rows(size_t first, size_t n) const;
};

// Which of an input's forms somebody reads.
struct InputForms {
  bool values = false;
  bool quantized = false;
};

// Row i of `to` becomes row rows[i] of `from`, bit for bit, in the wanted forms; `to` has rows.size() rows then.
// REQUIRES: the columns are as many, and `to` has memory for these forms and rows.
void gather_rows(const LinearInput& from, std::span<const uint32_t> rows, InputForms forms, LinearInput& to);

// Panels [panels.begin, panels.end) as a matrix of their own, in place.
PackedMatrix panels_of(const PackedMatrix& w, Range panels);

// What linear() needs besides its operands. `scratch` has linear_scratch_bytes() for each thread.
struct LinearContext {
  const Kernels* kernels = nullptr;
  Numerics numerics = Numerics::kExact;
  std::byte* scratch = nullptr;
  size_t scratch_stride = 0;  // bytes between threads
};

// Called by every worker of a region with the same arguments; each computes its share of the outputs.
// The caller puts a barrier before anybody reads y. x must be complete (barrier) before the call.
// y: [x.n_rows, y_stride], y_stride >= 16 * w.n_panels().
void linear(const Worker& worker, const LinearContext& context, const PackedMatrix& w, const LinearInput& x,
            float* y, size_t y_stride);

// The same for a share that the caller chose: outputs 16 * panels.begin to 16 * panels.end.
void linear_panels(const Worker& worker, const LinearContext& context, const PackedMatrix& w, const LinearInput& x,
                   Range panels, float* y, size_t y_stride);

// A float buffer of rows. It owns nothing.
struct Rows {   // [n_rows, stride]
  float* data = nullptr;
  size_t stride = 0;
  float* row(size_t i) const { return data + i * stride; }
};

}  // namespace ibid
