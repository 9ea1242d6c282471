// Norms, activations, sums and rotations over 16 lanes. Included after vec_<isa>.h, once per instruction set;
// ref_elementwise.cc is the scalar reference.
#pragma once

#include "kernels/kernels.h"
#include "kernels/simd/math-inl.h"

namespace ibid::IBID_ISA {
namespace {

// Loads up to 16 numbers of a row for a norm; if kHuge, multiplied by kHugeRow.
template <bool kHuge>
IBID_INLINE V16 load_row(const float* x, size_t n) {
  const V16 v = load_upto(x, n);
  return kHuge ? mul(v, set1(kHugeRow)) : v;
}

template <bool kHuge>
void rms_norm_of(const float* x, const float* weight, float eps, size_t n, float* y) {
  V16 squares = zero();
  for (size_t i = 0; i < n; i += 16) {
    const V16 v = load_row<kHuge>(x + i, n - i);
    squares = fma(v, v, squares);
  }
  const float mean = reduce_add(squares) / static_cast<float>(n);
  if (!kHuge && exceeds_float(mean)) return rms_norm_of<true>(x, weight, 0.0f, n, y);
  const V16 inv = div(set1(1.0f), sqrt(set1(mean + eps)));
  for (size_t i = 0; i < n; i += 16) {
    const V16 normed = mul(load_row<kHuge>(x + i, n - i), inv);
    store_upto(y + i, mul(normed, load_upto(weight + i, n - i)), n - i);
  }
}

void rms_norm(const float* x, const float* weight, float eps, size_t n, float* y) {
  rms_norm_of<false>(x, weight, eps, n, y);
}

template <bool kHuge>
void layer_norm_of(const float* x, const float* weight, const float* bias, float eps, size_t n, float* y) {
  V16 sum = zero();
  for (size_t i = 0; i < n; i += 16) sum = add(sum, load_row<kHuge>(x + i, n - i));
  const V16 mean = set1(reduce_add(sum) / static_cast<float>(n));
  V16 squares = zero();
  for (size_t i = 0; i < n; i += 16) {
    const V16 centred = sub(load_row<kHuge>(x + i, n - i), mean);
    const V16 counted = n - i >= 16 ? centred : select(lane_range(0, n - i), centred, zero());
    squares = fma(counted, counted, squares);
  }
  const float variance = reduce_add(squares) / static_cast<float>(n);
  if (!kHuge && exceeds_float(variance)) return layer_norm_of<true>(x, weight, bias, 0.0f, n, y);
  const V16 inv = div(set1(1.0f), sqrt(set1(variance + eps)));
  for (size_t i = 0; i < n; i += 16) {
    const V16 normed = mul(sub(load_row<kHuge>(x + i, n - i), mean), inv);
    const V16 weighted = mul(normed, load_upto(weight + i, n - i));
    store_upto(y + i, bias == nullptr ? weighted : add(weighted, load_upto(bias + i, n - i)), n - i);
  }
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, size_t n, float* y) {
  layer_norm_of<false>(x, weight, bias, eps, n, y);
}

IBID_INLINE V16 silu(V16 x) { return div(x, add(set1(1.0f), exp(neg(x)))); }

IBID_INLINE V16 sigmoid(V16 x) { return div(set1(1.0f), add(set1(1.0f), exp(neg(x)))); }

IBID_INLINE V16 gelu(V16 x) {
  const V16 half = mul(set1(0.5f), x);
  return fma(half, erf(mul(x, set1(kHalfSqrt2))), half);
}

IBID_INLINE V16 gelu_tanh(V16 x) {
  const V16 half = mul(set1(0.5f), x);
  const V16 cubic = fma(mul(set1(kGeluCubic), mul(x, x)), x, x);
  return fma(half, tanh(mul(set1(kSqrt2OverPi), cubic)), half);
}

IBID_INLINE V16 relu_squared(V16 x) {
  const V16 positive = max(zero(), x);
  return mul(positive, positive);
}

// expm1(x) = tanh(x / 2) (e^x + 1), which loses no precision near 0.
IBID_INLINE V16 xielu(V16 x, const Activation& f) {
  const V16 linear = mul(set1(f.beta), x);
  const V16 above = fma(mul(set1(f.alpha_p), x), x, linear);
  const V16 cut = min(set1(f.eps), x);
  const V16 expm1 = mul(tanh(mul(set1(0.5f), cut)), add(exp(cut), set1(1.0f)));
  const V16 below = fma(sub(expm1, x), set1(f.alpha_n), linear);
  return select(less(zero(), x), above, below);
}

template <typename F>
void map(const float* x, size_t n, float* y, F&& f) {
  for (size_t i = 0; i < n; i += 16) store_upto(y + i, f(load_upto(x + i, n - i)), n - i);
}

void activate(const Activation& f, const float* x, size_t n, float* y) {
  switch (f.kind) {
    case Activation::Kind::kSilu: return map(x, n, y, [](V16 v) { return silu(v); });
    case Activation::Kind::kGelu: return map(x, n, y, [](V16 v) { return gelu(v); });
    case Activation::Kind::kGeluTanh: return map(x, n, y, [](V16 v) { return gelu_tanh(v); });
    case Activation::Kind::kReluSquared: return map(x, n, y, [](V16 v) { return relu_squared(v); });
    case Activation::Kind::kSigmoid: return map(x, n, y, [](V16 v) { return sigmoid(v); });
    case Activation::Kind::kXielu: return map(x, n, y, [&](V16 v) { return xielu(v, f); });
  }
}

void softcap(float* x, float cap, size_t n) {
  map(x, n, x, [cap](V16 v) { return mul(set1(cap), tanh(div(v, set1(cap)))); });
}

void silu_mul(const float* gate, const float* up, size_t n, float* y) {
  for (size_t i = 0; i < n; i += 16) {
    const V16 g = load_upto(gate + i, n - i);
    store_upto(y + i, mul(silu(g), load_upto(up + i, n - i)), n - i);
  }
}

void clamped_swiglu(const float* gate, const float* up, float limit, float alpha, size_t n, float* y) {
  const V16 most = set1(limit), least = set1(-limit);
  for (size_t i = 0; i < n; i += 16) {
    const V16 g = min(most, load_upto(gate + i, n - i));  // min() returns its second operand if it is NaN
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

void multiply_rows(float* x, const float* y, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    store_upto(x + i, mul(load_upto(x + i, n - i), load_upto(y + i, n - i)), n - i);
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
  table.layer_norm = layer_norm;
  table.silu_mul = silu_mul;
  table.clamped_swiglu = clamped_swiglu;
  table.activate = activate;
  table.softcap = softcap;
  table.add = add_rows;
  table.multiply = multiply_rows;
  table.scale = scale_row;
  table.rope = rope;
}

}  // namespace
}  // namespace ibid::IBID_ISA
