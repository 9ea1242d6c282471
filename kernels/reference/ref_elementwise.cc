// Scalar reference kernels of elementwise-inl.h, and the oracle's norms and activation functions in double.
#include <algorithm>
#include <cmath>

#include "base/portable_math.h"
#include "kernels/reference/ref.h"

namespace ibid {
namespace {

void rms_norm_of(float factor, const float* x, const float* weight, float eps, size_t n, float* y) {
  float lanes[16] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % 16] = std::fma(x[i] * factor, x[i] * factor, lanes[i % 16]);
  const float mean = reduce_add16(lanes) / static_cast<float>(n);
  if (factor == 1 && exceeds_float(mean)) return rms_norm_of(kHugeRow, x, weight, 0, n, y);
  const float inv = 1.0f / std::sqrt(mean + eps);
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] * factor * inv) * weight[i];
}

void rms_norm(const float* x, const float* weight, float eps, size_t n, float* y) {
  rms_norm_of(1, x, weight, eps, n, y);
}

void layer_norm_of(float factor, const float* x, const float* weight, const float* bias, float eps, size_t n,
                   float* y) {
  float sums[16] = {}, squares[16] = {};
  for (size_t i = 0; i < n; ++i) sums[i % 16] = sums[i % 16] + x[i] * factor;
  const float mean = reduce_add16(sums) / static_cast<float>(n);
  for (size_t i = 0; i < n; ++i) {
    const float centred = x[i] * factor - mean;
    squares[i % 16] = std::fma(centred, centred, squares[i % 16]);
  }
  const float variance = reduce_add16(squares) / static_cast<float>(n);
  if (factor == 1 && exceeds_float(variance)) return layer_norm_of(kHugeRow, x, weight, bias, 0, n, y);
  const float inv = 1.0f / std::sqrt(variance + eps);
  for (size_t i = 0; i < n; ++i) {
    const float weighted = ((x[i] * factor - mean) * inv) * weight[i];
    y[i] = bias == nullptr ? weighted : weighted + bias[i];
  }
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, size_t n, float* y) {
  layer_norm_of(1, x, weight, bias, eps, n, y);
}

float xielu(float x, const Activation& f) {
  const float linear = f.beta * x;
  if (0.0f < x) return std::fma(f.alpha_p * x, x, linear);
  const float cut = std::min(f.eps, x);
  const float expm1 = portable_tanh(0.5f * cut) * (portable_exp(cut) + 1.0f);
  return std::fma(expm1 - x, f.alpha_n, linear);
}

float activated(const Activation& f, float x) {
  const float half = 0.5f * x;
  switch (f.kind) {
    case Activation::Kind::kSilu: return x / (1.0f + portable_exp(-x));
    case Activation::Kind::kGelu: return std::fma(half, portable_erf(x * kHalfSqrt2), half);
    case Activation::Kind::kGeluTanh: {
      const float cubic = std::fma(kGeluCubic * (x * x), x, x);
      return std::fma(half, portable_tanh(kSqrt2OverPi * cubic), half);
    }
    case Activation::Kind::kReluSquared: return std::max(0.0f, x) * std::max(0.0f, x);
    case Activation::Kind::kSigmoid: return 1.0f / (1.0f + portable_exp(-x));
    case Activation::Kind::kXielu: return xielu(x, f);
  }
  return x;
}

void activate(const Activation& f, const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = activated(f, x[i]);
}

void softcap(float* x, float cap, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = cap * portable_tanh(x[i] / cap);
}

void silu_mul(const float* gate, const float* up, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const float silu = gate[i] / (1.0f + portable_exp(-gate[i]));
    y[i] = silu * up[i];
  }
}

void clamped_swiglu(const float* gate, const float* up, float limit, float alpha, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const float g = limit < gate[i] ? limit : gate[i];  // NaN stays NaN
    const float below = limit < up[i] ? limit : up[i];
    const float u = below < -limit ? -limit : below;
    const float swish = g / (1.0f + portable_exp(-(g * alpha)));
    y[i] = (u + 1.0f) * swish;
  }
}

void add(float* x, const float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = x[i] + y[i];
}

void multiply(float* x, const float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = x[i] * y[i];
}

void scale(float* x, float factor, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = x[i] * factor;
}

void rope(float* x, const float* cos_sin, size_t rotary_dim) {
  const size_t half = rotary_dim / 2;
  for (size_t i = 0; i < half; ++i) {
    const float a = x[i];
    const float b = x[half + i];
    const float cosine = cos_sin[i];
    const float sine = cos_sin[half + i];
    x[i] = std::fma(a, cosine, -(b * sine));
    x[half + i] = std::fma(a, sine, b * cosine);
  }
}

void reference_rms_norm(const float* x, const float* weight, float eps, size_t n, float* y) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += double{x[i]} * double{x[i]};
  const double inv = 1.0 / std::sqrt(sum / static_cast<double>(n) + double{eps});
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(double{x[i]} * inv * double{weight[i]});
}

void reference_layer_norm(const float* x, const float* weight, const float* bias, float eps, size_t n, float* y) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) sum += double{x[i]};
  const double mean = sum / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) squares += (double{x[i]} - mean) * (double{x[i]} - mean);
  const double inv = 1.0 / std::sqrt(squares / static_cast<double>(n) + double{eps});
  for (size_t i = 0; i < n; ++i) {
    const double shift = bias == nullptr ? 0.0 : double{bias[i]};
    y[i] = static_cast<float>((double{x[i]} - mean) * inv * double{weight[i]} + shift);
  }
}

double reference_activated(const Activation& f, double x) {
  switch (f.kind) {
    case Activation::Kind::kSilu: return x / (1.0 + std::exp(-x));
    case Activation::Kind::kGelu: return 0.5 * x * (1.0 + std::erf(x * std::sqrt(0.5)));
    case Activation::Kind::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::Kind::kReluSquared: return x > 0 ? x * x : 0.0;
    case Activation::Kind::kSigmoid: return 1.0 / (1.0 + std::exp(-x));
    case Activation::Kind::kXielu:
      return double{f.beta} * x +
             (x > 0 ? double{f.alpha_p} * x * x : double{f.alpha_n} * (std::expm1(std::min(x, double{f.eps})) - x));
  }
  return x;
}

void reference_activate(const Activation& f, const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(reference_activated(f, double{x[i]}));
}

void reference_softcap(float* x, float cap, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(double{cap} * std::tanh(double{x[i]} / double{cap}));
}

void reference_silu_mul(const float* gate, const float* up, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const double g = gate[i];
    y[i] = static_cast<float>(g / (1.0 + std::exp(-g)) * double{up[i]});
  }
}

void reference_clamped_swiglu(const float* gate, const float* up, float limit, float alpha, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const double g = limit < gate[i] ? limit : gate[i];
    const double below = limit < up[i] ? limit : up[i];
    const double u = below < double{-limit} ? double{-limit} : below;
    y[i] = static_cast<float>((u + 1.0) * g / (1.0 + std::exp(-g * double{alpha})));
  }
}

}  // namespace

void fill_ref_elementwise(Kernels& table) {
  table.rms_norm = rms_norm;
  table.layer_norm = layer_norm;
  table.silu_mul = silu_mul;
  table.clamped_swiglu = clamped_swiglu;
  table.activate = activate;
  table.softcap = softcap;
  table.add = add;
  table.multiply = multiply;
  table.scale = scale;
  table.rope = rope;
}

void fill_reference_elementwise(Kernels& table) {
  table.rms_norm = reference_rms_norm;
  table.layer_norm = reference_layer_norm;
  table.activate = reference_activate;
  table.softcap = reference_softcap;
  table.silu_mul = reference_silu_mul;
  table.clamped_swiglu = reference_clamped_swiglu;
}

}  // namespace ibid
