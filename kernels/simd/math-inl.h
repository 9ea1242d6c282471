// exp, tanh and erf over 16 lanes, and loads and stores of up to 16 floats. Included after vec_<isa>.h, once per
// instruction set. The scalar versions and the constants are in portable_math.h.
#pragma once

#include "base/portable_math.h"

namespace ibid::IBID_ISA {
namespace {

// Loads the first min(n, 16) floats at p; the other lanes are zero and their memory is not accessed.
IBID_INLINE V16 load_upto(const float* p, size_t n) { return n >= 16 ? loadu(p) : load_first(p, n); }
IBID_INLINE void store_upto(float* p, V16 x, size_t n) {
  if (n >= 16) {
    storeu(p, x);
  } else {
    store_first(p, x, n);
  }
}

// e^x. REQUIRES: x <= kExpHighest, or NaN.
IBID_INLINE V16 exp_bounded(V16 x) {
  const V16 shifted = fma(x, set1(kLog2E), set1(kRoundShift));
  const V16 n = sub(shifted, set1(kRoundShift));
  V16 f = fma(n, set1(-kLn2High), x);
  f = fma(n, set1(-kLn2Low), f);
  V16 p = fma(set1(kExpC6), f, set1(kExpC5));
  p = fma(p, f, set1(kExpC4));
  p = fma(p, f, set1(kExpC3));
  p = fma(p, f, set1(kExpC2));
  p = fma(p, f, set1(1.0f));
  p = fma(p, f, set1(1.0f));
  const V16 power = as_float(add(shift_left<23>(as_int(shifted)), as_int(set1(1.0f))));
  return select(less(x, set1(kExpLowest)), zero(), mul(p, power));
}

// If x is NaN, so is the result, because min() returns its second operand for NaN.
IBID_INLINE V16 exp(V16 x) { return exp_bounded(min(set1(kExpHighest), x)); }

IBID_INLINE V16 tanh(V16 x) {
  const V16 a = abs(x);
  const V16 z = mul(x, x);
  V16 p = fma(set1(kTanhT4), z, set1(kTanhT3));
  p = fma(p, z, set1(kTanhT2));
  p = fma(p, z, set1(kTanhT1));
  p = fma(p, z, set1(kTanhT0));
  const V16 near = fma(mul(x, z), p, x);
  const V16 e = exp(mul(a, set1(-2.0f)));
  const V16 one = set1(1.0f);
  const V16 far = div(sub(one, e), add(one, e));
  const V16 far_signed = select(less(x, zero()), neg(far), far);
  return select(less(a, set1(kTanhSplit)), near, far_signed);
}

IBID_INLINE V16 erf(V16 x) {
  const V16 a = min(set1(kErfHighest), abs(x));
  const V16 z = mul(x, x);
  V16 p = fma(set1(kErfN5), z, set1(kErfN4));
  p = fma(p, z, set1(kErfN3));
  p = fma(p, z, set1(kErfN2));
  p = fma(p, z, set1(kErfN1));
  p = fma(p, z, set1(kErfN0));
  const V16 near = fma(p, x, x);
  V16 q = fma(set1(kErfF7), a, set1(kErfF6));
  q = fma(q, a, set1(kErfF5));
  q = fma(q, a, set1(kErfF4));
  q = fma(q, a, set1(kErfF3));
  q = fma(q, a, set1(kErfF2));
  q = fma(q, a, set1(kErfF1));
  q = fma(q, a, set1(kErfF0));
  const V16 far = sub(set1(1.0f), exp(neg(mul(q, a))));
  const V16 far_signed = select(less(x, zero()), neg(far), far);
  return select(less(a, set1(kErfSplit)), near, far_signed);
}

// log(1 + e^x)
IBID_INLINE V16 softplus(V16 x) {
  const V16 e = exp(neg(abs(x)));
  const V16 s = div(e, add(set1(2.0f), e));
  const V16 z = mul(s, s);
  V16 p = fma(set1(kSoftplusP4), z, set1(kSoftplusP3));
  p = fma(p, z, set1(kSoftplusP2));
  p = fma(p, z, set1(kSoftplusP1));
  p = fma(p, z, set1(kSoftplusP0));
  p = fma(p, z, set1(1.0f));
  return fma(add(s, s), p, max(zero(), x));
}

}  // namespace
}  // namespace ibid::IBID_ISA
