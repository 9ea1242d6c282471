// Norms, activations, sums and rotations over 16 lanes. Included after vec_<isa>.h, once per instruction
// set; ref_elementwise.cc is the scalar twin.
#pragma once

#include "kernels/kernels.h"
#include "kernels/math-inl.h"

namespace ibid::IBID_ISA {
namespace {

void rms_norm(const float* x, const float* weight, float eps, size_t n, float* y) {
  V16 squares = zero();
  for (size_t i = 0; i < n; i += 16) {
    const V16 v = load_upto(x + i, n - i);
    squares = fma(v, v, squares);
  }
  const float mean = reduce_add(squares) / static_cast<float>(n);
  const V16 inv = div(set1(1.0f), sqrt(set1(mean + eps)));
  for (size_t i = 0; i < n; i += 16) {
    const V16 normed = mul(load_upto(x + i, n - i), inv);
    store_upto(y + i, mul(normed, load_upto(weight + i, n - i)), n - i);
  }
}

void silu_mul(const float* gate, const float* up, size_t n, float* y) {
  for (size_t i = 0; i < n; i += 16) {
    const V16 g = load_upto(gate + i, n - i);
    const V16 silu = div(g, add(set1(1.0f), exp(neg(g))));
    store_upto(y + i, mul(silu, load_upto(up + i, n - i)), n - i);
  }
}

void clamped_swiglu(const float* gate, const float* up, float limit, float alpha, size_t n, float* y) {
  const V16 most = set1(limit), least = set1(-limit);
  for (size_t i = 0; i < n; i += 16) {
    const V16 g = min(most, load_upto(gate + i, n - i));   // in this order NaN stays NaN
    const V16 u = max(least, min(most, load_upto(up + i, n - i)));
    const V16 swish = div(g, add(set1(1.0f), exp(neg(mul(g, set1(alpha))))));
    store_upto(y + i, mul(add(u, set1(1.0f)), swish), n - i);
  }
}

void add_rows(float* x, const float* y, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    store_upto(x + i, add(load_upto(x + i, n - i), load_upto(y + i, n - i)), n - i);
  }
}

void scale_row(float* x, float factor, size_t n) {
  const V16 f = set1(factor);
  for (size_t i = 0; i < n; i += 16) store_upto(x + i, mul(load_upto(x + i, n - i), f), n - i);
}

void rope(float* x, const float* cos_sin, size_t rotary_dim) {
  const size_t half = rotary_dim / 2;
  for (size_t i = 0; i < half; i += 16) {
    const size_t n = half - i;
    const V16 a = load_upto(x + i, n);
    const V16 b = load_upto(x + half + i, n);
    const V16 cosine = load_upto(cos_sin + i, n);
    const V16 sine = load_upto(cos_sin + half + i, n);
    store_upto(x + i, fma(a, cosine, neg(mul(b, sine))), n);
    store_upto(x + half + i, fma(a, sine, mul(b, cosine)), n);
  }
}

void fill_elementwise(Kernels& table) {
  table.rms_norm = rms_norm;
  table.silu_mul = silu_mul;
  table.clamped_swiglu = clamped_swiglu;
  table.add = add_rows;
  table.scale = scale_row;
  table.rope = rope;
}

}  // namespace
}  // namespace ibid::IBID_ISA
