#include "tests/oracle/activations.h"

#include <cmath>
#include <numbers>

namespace ibid::oracle {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

namespace {

// Huang & Schlag 2024: a parabola for x > 0, and an integral of ELU for other x.
double xielu(const Activation& f, double x) {
  const auto alpha_p = static_cast<double>(f.alpha_p), alpha_n = static_cast<double>(f.alpha_n);
  const auto beta = static_cast<double>(f.beta), eps = static_cast<double>(f.eps);
  if (x > 0) return alpha_p * x * x + beta * x;
  return alpha_n * (std::expm1(std::min(x, eps)) - x) + beta * x;
}

}  // namespace

double activate(const Activation& f, double x) {
  switch (f.kind) {
    case Activation::Kind::kSilu: return x * sigmoid(x);
    case Activation::Kind::kGelu: return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2;
    case Activation::Kind::kGeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))) / 2;
    case Activation::Kind::kReluSquared: return x > 0 ? x * x : 0;
    case Activation::Kind::kSigmoid: return sigmoid(x);
    case Activation::Kind::kXielu: return xielu(f, x);
  }
  return 0;
}

Matrix activate(const Activation& f, const Matrix& x) {
  return x.unaryExpr([&](double value) { return activate(f, value); });
}

}  // namespace ibid::oracle
