// Activation: which nonlinearity an MLP has. Plain data; Kernels::activate computes it.
#pragma once

#include <cstdint>

namespace ibid {

// The nonlinearity of an MLP, element by element.
struct Activation {
  enum class Kind : uint8_t {
    kSilu,         // x / (1 + exp(-x))
    kGelu,         // x (1 + erf(x / sqrt 2)) / 2   (Hendrycks & Gimpel 2016)
    kGeluTanh,     // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    kReluSquared,  // max(x, 0)^2   (So et al. 2021)
    kSigmoid,      // 1 / (1 + exp(-x)): of gates
    kXielu,        // x > 0: alpha_p x^2 + beta x, else alpha_n (expm1(min(x, eps)) - x) + beta x  (Huang & Schlag 2024)
  };
  Kind kind = Kind::kSilu;
  float alpha_p = 0, alpha_n = 0, beta = 0, eps = 0;  // kXielu
};

}  // namespace ibid
