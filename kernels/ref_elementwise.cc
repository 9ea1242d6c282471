// Scalar twins of elementwise-inl.h, and the oracle's rms_norm and silu_mul in double.
#include <algorithm>
#include <cmath>

#include "kernels/portable_math.h"
#include "kernels/ref.h"

namespace ibid {
namespace {

void rms_norm(const float* x, const float* weight, float eps, size_t n, float* y) {
  float lanes[16] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
  const float mean = reduce_add16(lanes) / static_cast<float>(n);
  const float inv = 1.0f / std::sqrt(mean + eps);
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] * inv) * weight[i];
}

void silu_mul(const float* gate, const float* up, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const float silu = gate[i] / (1.0f + portable_exp(-gate[i]));
    y[i] = silu * up[i];
  }
}

void clamped_swiglu(const float* gate, const float* up, float limit, float alpha, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const float g = limit < gate[i] ? limit : gate[i];   // NaN stays NaN
    const float below = limit < up[i] ? limit : up[i];
    const float u = below < -limit ? -limit : below;
    const float swish = g / (1.0f + portable_exp(-(g * alpha)));
    y[i] = (u + 1.0f) * swish;
  }
}

void add(float* x, const float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = x[i] + y[i];
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
  table.silu_mul = silu_mul;
  table.clamped_swiglu = clamped_swiglu;
  table.add = add;
  table.scale = scale;
  table.rope = rope;
}

void fill_reference_elementwise(Kernels& table) {
  table.rms_norm = reference_rms_norm;
  table.silu_mul = reference_silu_mul;
  table.clamped_swiglu = reference_clamped_swiglu;
}

}  // namespace ibid
