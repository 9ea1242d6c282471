#include "base/portable_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace ibid {
namespace {

// 1 / (2 k + first)! for k = 0..8: the Taylor coefficients of sine (first = 1) and cosine (first = 0). For |x| <= pi /
// 4 the first omitted term is below 5e-17 of the result.
constexpr double kSinCoefficients[] = {1.0,          -1.0 / 6,        1.0 / 120,        -1.0 / 5040,
                                       1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000};
constexpr double kCosCoefficients[] = {1.0,
                                       -1.0 / 2,
                                       1.0 / 24,
                                       -1.0 / 720,
                                       1.0 / 40320,
                                       -1.0 / 3628800,
                                       1.0 / 479001600,
                                       -1.0 / 87178291200,
                                       1.0 / 20922789888000};

// Evaluates c[0] + c[1] z + ... by Horner's rule.
template <size_t N>
double polynomial(const double (&c)[N], double z) {
  double sum = c[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = sum * z + c[i];
  return sum;
}

// Rounds to the nearest integer, halves away from zero. The reduced argument may slightly exceed half a period, so an
// inexact quotient does no harm.
int64_t nearest(double x) { return static_cast<int64_t>(x < 0 ? x - 0.5 : x + 0.5); }

double power_of_two(int64_t n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

// ln 2 in two parts; the first has 32 bits, so that its product with an integer exponent is exact.
constexpr double kLn2HighDouble = 0x1.62e42feep-1;
constexpr double kLn2LowDouble = 0x1.a39ef35793c76p-33;

}  // namespace

float portable_exp(float x) {
  if (std::isnan(x)) return x;
  if (x < kExpLowest) return 0.0f;
  if (x > kExpHighest) x = kExpHighest;
  const float n = std::fma(x, kLog2E, kRoundShift) - kRoundShift;
  float f = std::fma(n, -kLn2High, x);
  f = std::fma(n, -kLn2Low, f);
  float p = std::fma(kExpC6, f, kExpC5);
  p = std::fma(p, f, kExpC4);
  p = std::fma(p, f, kExpC3);
  p = std::fma(p, f, kExpC2);
  p = std::fma(p, f, 1.0f);
  p = std::fma(p, f, 1.0f);
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

float portable_tanh(float x) {
  const float a = std::fabs(x);
  if (a < kTanhSplit) {
    const float z = x * x;
    float p = std::fma(kTanhT4, z, kTanhT3);
    p = std::fma(p, z, kTanhT2);
    p = std::fma(p, z, kTanhT1);
    p = std::fma(p, z, kTanhT0);
    return std::fma(x * z, p, x);
  }
  const float e = portable_exp(a * -2.0f);
  return std::copysign((1.0f - e) / (1.0f + e), x);
}

float portable_erf(float x) {
  const float a = std::min(kErfHighest, std::fabs(x));
  if (a < kErfSplit) {
    const float z = x * x;
    float p = std::fma(kErfN5, z, kErfN4);
    p = std::fma(p, z, kErfN3);
    p = std::fma(p, z, kErfN2);
    p = std::fma(p, z, kErfN1);
    p = std::fma(p, z, kErfN0);
    return std::fma(p, x, x);
  }
  float q = std::fma(kErfF7, a, kErfF6);
  q = std::fma(q, a, kErfF5);
  q = std::fma(q, a, kErfF4);
  q = std::fma(q, a, kErfF3);
  q = std::fma(q, a, kErfF2);
  q = std::fma(q, a, kErfF1);
  q = std::fma(q, a, kErfF0);
  return std::copysign(1.0f - portable_exp(-(q * a)), x);
}

float portable_softplus(float x) {
  const float e = portable_exp(-std::fabs(x));
  const float s = e / (2.0f + e);
  const float z = s * s;
  float p = std::fma(kSoftplusP4, z, kSoftplusP3);
  p = std::fma(p, z, kSoftplusP2);
  p = std::fma(p, z, kSoftplusP1);
  p = std::fma(p, z, kSoftplusP0);
  p = std::fma(p, z, 1.0f);
  const float above = 0.0f > x ? 0.0f : x;  // NaN stays NaN
  return std::fma(s + s, p, above);
}

SinCos portable_sin_cos(double x) {
  // pi / 2 in three parts; the first two have 33 bits, so that their products with k < 2^20 are exact.
  constexpr double kHalfPi1 = 0x1.921fb544p+0;
  constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
  constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  const int64_t k = nearest(x * kTwoOverPi);
  const double n = static_cast<double>(k);
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double z = r * r;
  const double s = r * polynomial(kSinCoefficients, z);
  const double c = polynomial(kCosCoefficients, z);
  switch (k & 3) {
    case 0: return {s, c};
    case 1: return {c, -s};
    case 2: return {-s, -c};
    default: return {-c, s};
  }
}

double portable_exp(double x) {
  const int64_t k = nearest(x / (kLn2HighDouble + kLn2LowDouble));
  const double n = static_cast<double>(k);
  const double r = (x - n * kLn2HighDouble) - n * kLn2LowDouble;
  // Taylor series up to r^14 / 14!: for |r| <= 0.347 the rest is below 1e-19.
  double sum = 1.0;
  for (int i = 14; i > 0; --i) sum = 1.0 + sum * r / i;
  return sum * power_of_two(k);
}

double portable_log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    exponent += 1;
  }
  // log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.172: after s^23 the rest of the series is below 1e-20.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (int i = 23; i >= 3; i -= 2) sum = (sum + 1.0 / i) * z;
  const double n = static_cast<double>(exponent);
  return n * kLn2HighDouble + (2.0 * s + (2.0 * s * sum + n * kLn2LowDouble));
}

double portable_pow(double base, double exponent) { return portable_exp(exponent * portable_log(base)); }

}  // namespace ibid
