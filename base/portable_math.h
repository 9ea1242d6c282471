// Math functions whose results must not depend on the machine. They use only operations that every machine rounds
// alike: fused multiply-add, multiply, add, divide, integer exponents. libm is not used, because its results depend on
// its version and on the CPU.
//
// The float functions are the reference of kernels/simd/math-inl.h, which gives the same bits. The double functions
// compute the angles of rotary embeddings (kernels/ops/rope.h) and are not performance-critical.
#pragma once

namespace ibid {

// Constants of exp, shared with the vector form: n = x log2 e + kRoundShift - kRoundShift, which rounds to even,
//   f = x - n ln 2 in two parts,  e^x = 2^n (1 + f + f^2 (c2 + c3 f + ...))
// c2..c6 interpolate (e^f - 1 - f) / f^2 at Chebyshev nodes of |f| <= 1.02 ln(2) / 2; relative error 8e-9.
inline constexpr float kExpLowest = -87.3f;  // for smaller x the result is 0; for larger x 2^n (1 + f + ...) is normal
inline constexpr float kExpHighest = 88.0f;  // for larger x the result is e^88, so that nothing becomes infinite
inline constexpr float kLog2E = 1.44269504f;
// 1.5 * 2^23: floats near it have a spacing of 1, so adding a number rounds it to an integer, held in the lowest bits.
inline constexpr float kRoundShift = 0x1.8p23f;
inline constexpr float kLn2High = 0x1.62e4p-1f;  // has 15 bits, so that n * kLn2High is exact
inline constexpr float kLn2Low = 1.42860682e-06f;
inline constexpr float kExpC2 = 0.5f, kExpC3 = 0.166665696f, kExpC4 = 0.0416665454f;
inline constexpr float kExpC5 = 0.00836438069f, kExpC6 = 0.00139276846f;

// Constants of tanh: for |x| < kTanhSplit, x + x^3 (t0 + t1 x^2 + ...) (Moshier, Cephes tanhf); else by exp.
inline constexpr float kTanhSplit = 0.625f;
inline constexpr float kTanhT0 = -0.333332819422f, kTanhT1 = 0.133314422036f, kTanhT2 = -0.0537397155531f;
inline constexpr float kTanhT3 = 0.0206390887954f, kTanhT4 = -0.00570498872745f;

// Constants of erf: for |x| < kErfSplit, x + x (n0 + n1 x^2 + ...); else 1 - e^(-a (f0 + f1 a + ...)), a = min(|x|, 4).
// n and f interpolate erf(x) / x - 1 and -log(erfc(a)) / a at Chebyshev nodes; absolute error 8e-8.
inline constexpr float kErfSplit = 0.95f, kErfHighest = 4.0f;
inline constexpr float kErfN0 = 0.128379151f, kErfN1 = -0.376124591f, kErfN2 = 0.112814374f;
inline constexpr float kErfN3 = -0.0267524198f, kErfN4 = 0.0049719587f, kErfN5 = -0.000588163966f;
inline constexpr float kErfF0 = 1.12890053f, kErfF1 = 0.634161711f, kErfF2 = 0.107828915f;
inline constexpr float kErfF3 = -0.0251142289f, kErfF4 = 0.00429076888f, kErfF5 = -0.000495098124f;
inline constexpr float kErfF6 = 3.38300852e-05f, kErfF7 = -1.01191722e-06f;

// Constants of softplus: log(1 + e) = 2 s (1 + z (p0 + p1 z + ...)), s = e / (2 + e), z = s^2 <= 1/9, for 0 < e <= 1. p
// interpolates (atanh(s) / s - 1) / z at Chebyshev nodes; relative error 1e-9.
inline constexpr float kSoftplusP0 = 0.333333343f, kSoftplusP1 = 0.199998528f, kSoftplusP2 = 0.14296183f;
inline constexpr float kSoftplusP3 = 0.108532302f, kSoftplusP4 = 0.116124608f;

inline constexpr float kHalfSqrt2 = 0.707106781f;    // sqrt(1 / 2), for GELU
inline constexpr float kSqrt2OverPi = 0.797884561f;  // sqrt(2 / pi), for the tanh form of GELU
inline constexpr float kGeluCubic = 0.044715f;

// e^x, with an error of 2 units in the last place, for kExpLowest <= x <= kExpHighest; exp(0) is 1, exp(-infinity) 0,
// NaN stays NaN.
float portable_exp(float x);

// The error function, with an absolute error of 1e-7; odd.
float portable_erf(float x);

// tanh(x), an odd function, with an error of 3 units in the last place.
float portable_tanh(float x);

// log(1 + e^x), with an error of 4 units in the last place, for x >= -87; 0 for smaller x; NaN stays NaN.
float portable_softplus(float x);

// Sine and cosine of x radians, with an error of 1e-15, for |x| <= 2^20. Cody-Waite reduction by pi / 2 in three parts.
struct SinCos {
  double sin;
  double cos;
};
SinCos portable_sin_cos(double x);

// e^x, with a relative error of 1e-15, for |x| <= 700.
double portable_exp(double x);

// The natural logarithm, with an absolute or relative error of 1e-15. REQUIRES: x is a normal number > 0.
double portable_log(double x);

// base^exponent = e^(exponent log base). REQUIRES: base > 0, result within e^-700 .. e^700.
double portable_pow(double base, double exponent);

}  // namespace ibid
