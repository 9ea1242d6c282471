// Math functions whose results must not depend on the machine, written in operations that every machine rounds alike:
// fused multiply-add, multiply, add, divide, integer exponents. libm picks variants by CPU and version.
//
// The float functions are the scalar reference of kernels/simd/math-inl.h, equal bit for bit. The double functions
// compute the angles of rotary embeddings (kernels/ops/rope.h) and are not performance-critical.
#pragma once

namespace ibid {

// Constants of exp, shared with the vector form: n = x log2 e + kRoundShift - kRoundShift, which rounds to even,
//   f = x - n ln 2 in two parts,  e^x = 2^n (1 + f + f^2 (c2 + c3 f + ...))
// c2..c6 interpolate (e^f - 1 - f) / f^2 at Chebyshev nodes of |f| <= 1.02 ln(2) / 2: 8e-9 relative.
inline constexpr float kExpLowest = -87.3f;  // below: 0. 2^n (1 + f + ...) stays a normal number above it
inline constexpr float kExpHighest = 88.0f;  // above: e^88, so that nothing becomes infinite
inline constexpr float kLog2E = 1.44269504f;
// 1.5 * 2^23: floats of this size are integers, and their lowest bits hold the number that was added.
inline constexpr float kRoundShift = 0x1.8p23f;
inline constexpr float kLn2High = 0x1.62e4p-1f;  // 15 bits: n kLn2High is exact
inline constexpr float kLn2Low = 1.42860682e-06f;
inline constexpr float kExpC2 = 0.5f, kExpC3 = 0.166665696f, kExpC4 = 0.0416665454f;
inline constexpr float kExpC5 = 0.00836438069f, kExpC6 = 0.00139276846f;

// Constants of tanh: |x| < kTanhSplit: x + x^3 (t0 + t1 x^2 + ...) (Moshier, Cephes tanhf), else by exp.
inline constexpr float kTanhSplit = 0.625f;
inline constexpr float kTanhT0 = -0.333332819422f, kTanhT1 = 0.133314422036f, kTanhT2 = -0.0537397155531f;
inline constexpr float kTanhT3 = 0.0206390887954f, kTanhT4 = -0.00570498872745f;

// Constants of erf: |x| < kErfSplit: x + x (n0 + n1 x^2 + ...), else 1 - e^(-a (f0 + f1 a + ...)) of a = min(|x|, 4).
// n and f interpolate erf(x) / x - 1 and -log(erfc(a)) / a at Chebyshev nodes: 8e-8 absolute.
inline constexpr float kErfSplit = 0.95f, kErfHighest = 4.0f;
inline constexpr float kErfN0 = 0.128379151f, kErfN1 = -0.376124591f, kErfN2 = 0.112814374f;
inline constexpr float kErfN3 = -0.0267524198f, kErfN4 = 0.0049719587f, kErfN5 = -0.000588163966f;
inline constexpr float kErfF0 = 1.12890053f, kErfF1 = 0.634161711f, kErfF2 = 0.107828915f;
inline constexpr float kErfF3 = -0.0251142289f, kErfF4 = 0.00429076888f, kErfF5 = -0.000495098124f;
inline constexpr float kErfF6 = 3.38300852e-05f, kErfF7 = -1.01191722e-06f;

// Constants of softplus: log(1 + e) = 2 s (1 + z (p0 + p1 z + ...)), s = e / (2 + e), z = s^2 <= 1/9, for 0 < e <= 1.
// p interpolates (atanh(s) / s - 1) / z at Chebyshev nodes: 1e-9 relative.
inline constexpr float kSoftplusP0 = 0.333333343f, kSoftplusP1 = 0.199998528f, kSoftplusP2 = 0.14296183f;
inline constexpr float kSoftplusP3 = 0.108532302f, kSoftplusP4 = 0.116124608f;

inline constexpr float kHalfSqrt2 = 0.707106781f;    // of GELU
inline constexpr float kSqrt2OverPi = 0.797884561f;  // of GELU's tanh form
inline constexpr float kGeluCubic = 0.044715f;

// e^x to 2 units in the last place between the limits above; exp(0) is 1, exp(-infinity) 0, NaN stays NaN.
float portable_exp(float x);

// The error function to 1e-7 absolute; odd.
float portable_erf(float x);

// tanh(x) to 3 units in the last place; odd.
float portable_tanh(float x);

// log(1 + e^x) to 4 units in the last place for x >= -87, below it 0; NaN stays NaN.
float portable_softplus(float x);

// Sine and cosine of x radians to 1e-15, for |x| <= 2^20. Cody-Waite reduction by pi / 2 in three parts.
struct SinCos {
  double sin;
  double cos;
};
SinCos portable_sin_cos(double x);

// e^x to 1e-15 relative, |x| <= 700.
double portable_exp(double x);

// The natural logarithm to 1e-15 absolute or relative. REQUIRES: x is a normal number > 0.
double portable_log(double x);

// base^exponent = e^(exponent log base). REQUIRES: base > 0, result within e^-700 .. e^700.
double portable_pow(double base, double exponent);

}  // namespace ibid
