#include "tests/oracle/recurrent.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/oracle/activations.h"
#include "tests/oracle/norms.h"

namespace ibid::oracle {

namespace {

using enum TensorRole;

double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }
double silu(double x) { return x * sigmoid(x); }
Matrix silu(const Matrix& x) {
  return x.unaryExpr([](double value) { return silu(value); });
}
Matrix sigmoid(const Matrix& x) {
  return x.unaryExpr([](double value) { return oracle::sigmoid(value); });
}
Index index(size_t n) { return static_cast<Index>(n); }

// Convolves each column separately. w: [columns, K]; its last tap multiplies the current row.
Matrix convolve(const Matrix& x, const Matrix& w, const Vector& bias) {
  Matrix y = Matrix::Zero(x.rows(), x.cols());
  for (Index t = 0; t < x.rows(); ++t) {
    for (Index j = 0; j < w.cols(); ++j) {
      const Index from = t - (w.cols() - 1) + j;
      if (from >= 0) y.row(t) += w.col(j).transpose().cwiseProduct(x.row(from));
    }
  }
  add_to_rows(y, bias);
  return y;
}

// Returns the papers' matrix or decay A < 0.
Matrix negative_rates(const Model& model, const Matrix& stored) {
  if (!model.config.recurrent.logs_of_decays) return stored;
  return -stored.array().exp();
}

// Applies norm and gate to o, and multiplies by W_out.
Matrix finish(const Model& model, size_t layer, const Matrix& o, const Matrix& z) {
  const RecurrentMixer& m = model.config.recurrent;
  Matrix y = o;
  if (m.gate == OutputGate::kNoNorm || m.gate == OutputGate::kGateThenNorm) y = y.cwiseProduct(silu(z));
  if (m.gate != OutputGate::kNoNorm) {
    const Vector weight = model.weights.vector(kMixNorm, layer);
    const Index n = o.cols() / index(m.norm_parts);
    for (Index part = 0; part < index(m.norm_parts); ++part) {
      const Vector own = m.norm_is_shared ? weight : Vector(weight.segment(part * n, n));
      y.middleCols(part * n, n) = rms_norm(y.middleCols(part * n, n), own, static_cast<double>(m.norm_eps));
    }
  }
  if (m.gate == OutputGate::kNormThenGate) y = y.cwiseProduct(silu(z));
  if (m.gate == OutputGate::kNormThenSigmoid) y = y.cwiseProduct(sigmoid(z));
  return linear(y, model.weights.as_stored(kMixOut, layer), model.weights.vector(kBMixOut, layer));
}

Matrix short_convolution(const Model& model, size_t layer, const Matrix& h) {
  const FileTensors& w = model.weights;
  const Matrix all = linear(h, w.as_stored(kMixIn, layer), w.vector(kBMixIn, layer));  // B | C | x
  const Index d = all.cols() / 3;
  const Matrix x = all.leftCols(d).cwiseProduct(all.rightCols(d));
  const Matrix y = convolve(x, w.as_stored(kMixConv, layer), w.vector(kMixConvBias, layer));
  return linear(all.middleCols(d, d).cwiseProduct(y), w.as_stored(kMixOut, layer), w.vector(kBMixOut, layer));
}

Matrix mamba1(const Model& model, size_t layer, const Matrix& h) {
  const RecurrentMixer& m = model.config.recurrent;
  const FileTensors& w = model.weights;
  const Index d = index(m.value_dim), n = index(m.key_dim), rank = index(m.step_rank);
  const Matrix xz = linear(h, w.as_stored(kMixIn, layer), w.vector(kBMixIn, layer));
  const Vector conv_bias = w.vector(kMixConvBias, layer);
  const Matrix x = silu(convolve(xz.leftCols(d), w.as_stored(kMixConv, layer), conv_bias));
  const Matrix numbers = linear(x, w.as_stored(kMixScan, layer));  // dt | B | C
  const auto normed = [&](Index at, Index width, TensorRole role) -> Matrix {
    const Vector weight = w.vector(role, layer);
    const Matrix part = numbers.middleCols(at, width);
    return weight.size() == 0 ? part : rms_norm(part, weight, static_cast<double>(m.norm_eps));
  };
  const Matrix low = normed(0, rank, kMixStepNorm);
  const Matrix b = normed(rank, n, kMixBNorm), c = normed(rank + n, n, kMixCNorm);
  Matrix dt = linear(low, w.as_stored(kMixStep, layer), w.vector(kMixStepBias, layer));
  const Matrix a = negative_rates(model, w.as_stored(kMixScanRates, layer));  // [d, N]
  const Vector skip = w.vector(kMixScanSkip, layer);
  Matrix state = Matrix::Zero(d, n), y(h.rows(), d);
  for (Index t = 0; t < h.rows(); ++t) {
    for (Index i = 0; i < d; ++i) {
      const double step = softplus(dt(t, i));
      state.row(i) = (step * a.row(i).array()).exp() * state.row(i).array() + step * x(t, i) * b.row(t).array();
      y(t, i) = state.row(i).dot(c.row(t)) + skip[i] * x(t, i);
    }
  }
  return finish(model, layer, y, xz.rightCols(d));
}

Matrix mamba2(const Model& model, size_t layer, const Matrix& h) {
  const RecurrentMixer& m = model.config.recurrent;
  const FileTensors& w = model.weights;
  const Index heads = index(m.n_heads), p = index(m.value_dim), n = index(m.key_dim), groups = index(m.n_key_heads);
  const Index d = heads * p, gn = groups * n;
  Vector in_bias = w.vector(kBMixIn, layer);
  in_bias /= static_cast<double>(m.input_scale);                // z_scale and the other factors include input_scale
  Matrix all = linear(h, w.as_stored(kMixIn, layer), in_bias);  // z | x | B | C | dt
  all.leftCols(d) *= static_cast<double>(m.z_scale);
  all.middleCols(d, d) *= static_cast<double>(m.v_scale);
  all.middleCols(2 * d, gn) *= static_cast<double>(m.k_scale);
  all.middleCols(2 * d + gn, gn) *= static_cast<double>(m.q_scale);
  all.rightCols(heads) *= static_cast<double>(m.number_scale);
  const Matrix xbc =
      silu(convolve(all.middleCols(d, d + 2 * gn), w.as_stored(kMixConv, layer), w.vector(kMixConvBias, layer)));
  const Vector a = negative_rates(model, w.vector(kMixRates, layer)), skip = w.vector(kMixSkip, layer);
  const Vector bias = w.vector(kMixStepBias, layer);
  Matrix y(h.rows(), d);
  for (Index head = 0; head < heads; ++head) {
    const Index group = head / (heads / groups);
    Matrix state = Matrix::Zero(p, n);
    for (Index t = 0; t < h.rows(); ++t) {
      const double step = std::clamp(softplus(all(t, 2 * d + 2 * gn + head) + bias[head]),
                                     static_cast<double>(m.step_low), static_cast<double>(m.step_high));
      const Vector x = xbc.row(t).segment(head * p, p), b = xbc.row(t).segment(d + group * n, n);
      state = std::exp(step * a[head]) * state + step * x.transpose() * b;
      const Vector c = xbc.row(t).segment(d + gn + group * n, n);
      y.row(t).segment(head * p, p) = (state * c.transpose()).transpose() + skip[head] * x;
    }
  }
  return finish(model, layer, y, all.leftCols(d));
}

// Inputs of a delta rule, with q, k, v after convolve_inputs(). Rates and decays: [T, heads]; Kimi's decays: [T, heads
// N].
struct DeltaInputs {
  Matrix q, k, v, z, rates, decays;
};

// Splits fused inputs that are stored by key head: q, k, then v and z of its heads.
DeltaInputs of_groups(const RecurrentMixer& m, const Matrix& all, const Matrix& numbers) {
  const Index groups = index(m.n_key_heads), n = index(m.key_dim), each = index(m.n_heads) / groups;
  const Index values = each * index(m.value_dim), stride = 2 * n + 2 * values;
  DeltaInputs in;
  for (Matrix* part : {&in.q, &in.k}) part->resize(all.rows(), groups * n);
  for (Matrix* part : {&in.v, &in.z}) part->resize(all.rows(), groups * values);
  for (Matrix* part : {&in.rates, &in.decays}) part->resize(all.rows(), groups * each);
  for (Index g = 0; g < groups; ++g) {
    in.q.middleCols(g * n, n) = all.middleCols(g * stride, n);
    in.k.middleCols(g * n, n) = all.middleCols(g * stride + n, n);
    in.v.middleCols(g * values, values) = all.middleCols(g * stride + 2 * n, values);
    in.z.middleCols(g * values, values) = all.middleCols(g * stride + 2 * n + values, values);
    in.rates.middleCols(g * each, each) = numbers.middleCols(g * 2 * each, each);
    in.decays.middleCols(g * each, each) = numbers.middleCols(g * 2 * each + each, each);
  }
  return in;
}

DeltaInputs delta_inputs(const Model& model, size_t layer, const Matrix& h) {
  const RecurrentMixer& m = model.config.recurrent;
  const FileTensors& w = model.weights;
  const Index keys = index(m.n_key_heads * m.key_dim), values = index(m.n_heads * m.value_dim);
  DeltaInputs in;
  const Matrix fused = w.as_stored(kMixIn, layer), numbers = w.as_stored(kMixNumbers, layer);
  if (m.fused == FusedInputs::kGroups) {
    in = of_groups(m, linear(h, fused), linear(h, numbers));
  } else if (fused.size() > 0) {
    const Matrix qkv = linear(h, fused);
    in.q = qkv.leftCols(keys), in.k = qkv.middleCols(keys, keys), in.v = qkv.rightCols(values);
  } else {
    in.q = linear(h, w.as_stored(kMixQ, layer));
    in.k = linear(h, w.as_stored(kMixK, layer));
    in.v = linear(h, w.as_stored(kMixV, layer));
  }
  const auto of_two = [&](TensorRole first, TensorRole second) {
    return linear(linear(h, w.as_stored(first, layer)), w.as_stored(second, layer));
  };
  if (m.rule == RecurrentRule::kKeyedDelta) {
    in.z = of_two(kMixGateLow, kMixZOfLow);
    in.decays = of_two(kMixDecayLow, kMixDecayOfLow);
  } else if (m.fused != FusedInputs::kGroups) {
    in.z = linear(h, w.as_stored(kMixZ, layer));
    if (numbers.size() == 0) in.decays = linear(h, w.as_stored(kMixDecay, layer));
  }
  if (in.rates.size() == 0 && numbers.size() == 0) in.rates = linear(h, w.as_stored(kMixRate, layer));
  if (in.rates.size() == 0) {
    const DeltaInputs split = of_groups(m, Matrix::Zero(h.rows(), 2 * keys + 2 * values), linear(h, numbers));
    in.rates = split.rates, in.decays = split.decays;
  }
  return in;
}

void convolve_inputs(const Model& model, size_t layer, DeltaInputs& in) {
  const FileTensors& w = model.weights;
  const Matrix fused = w.as_stored(kMixConv, layer);
  const auto part = [&](TensorRole own, Index first, Index n) -> Matrix {
    return fused.size() > 0 ? Matrix(fused.middleRows(first, n)) : w.as_stored(own, layer);
  };
  const Index keys = in.q.cols();
  in.q = silu(convolve(in.q, part(kMixConvQ, 0, keys), {}));
  in.k = silu(convolve(in.k, part(kMixConvK, keys, keys), {}));
  in.v = silu(convolve(in.v, part(kMixConvV, 2 * keys, in.v.cols()), {}));
}

// S = diag(d) S; S += k (outer) beta (v - S^T k); o = S^T q
Matrix delta_rule(const Model& model, size_t layer, const Matrix& h) {
  const RecurrentMixer& m = model.config.recurrent;
  DeltaInputs in = delta_inputs(model, layer, h);
  convolve_inputs(model, layer, in);
  const Index heads = index(m.n_heads), n = index(m.key_dim), p = index(m.value_dim);
  const Vector a = negative_rates(model, model.weights.vector(kMixRates, layer));
  const Vector bias = model.weights.vector(kMixStepBias, layer);
  const bool per_key = m.rule == RecurrentRule::kKeyedDelta;
  Matrix o(h.rows(), heads * p);
  for (Index head = 0; head < heads; ++head) {
    const bool tiled = m.tiled_heads && m.tiled_in_file;
    const Index shared = tiled ? head % index(m.n_key_heads) : head / (heads / index(m.n_key_heads));
    Matrix state = Matrix::Zero(n, p);
    for (Index t = 0; t < h.rows(); ++t) {
      Vector q = in.q.row(t).segment(shared * n, n), k = in.k.row(t).segment(shared * n, n);
      q /= std::sqrt(q.squaredNorm() + 1e-6) * std::sqrt(static_cast<double>(n));
      k /= std::sqrt(k.squaredNorm() + 1e-6);
      for (Index i = 0; i < n; ++i) {
        const Index at = per_key ? head * n + i : head;
        state.row(i) *= std::exp(a[head] * softplus(in.decays(t, at) + bias[at]));
      }
      const double beta = static_cast<double>(m.rate_scale) * oracle::sigmoid(in.rates(t, head));
      const Vector change = beta * (in.v.row(t).segment(head * p, p) - k * state);
      state += k.transpose() * change;
      o.row(t).segment(head * p, p) = q * state;
    }
  }
  return finish(model, layer, o, in.z);
}

// S = exp(-s) S + k (outer) v; o = S^T q
Matrix lightning(const Model& model, size_t layer, const Matrix& h) {
  const RecurrentMixer& m = model.config.recurrent;
  const FileTensors& w = model.weights;
  const Index heads = index(m.n_heads), n = index(m.key_dim);
  const Matrix qkv = silu(linear(h, w.as_stored(kMixIn, layer)));  // for each head q | k | v
  const double depth = static_cast<double>(layer) / (static_cast<double>(model.config.n_layers) - 1 + 1e-5);
  Matrix o(h.rows(), heads * n);
  for (Index head = 0; head < heads; ++head) {
    const double slope = std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(heads));
    const double decay = std::exp(-slope * (1 - depth + 1e-5));
    Matrix state = Matrix::Zero(n, n);
    for (Index t = 0; t < h.rows(); ++t) {
      const Vector all = qkv.row(t).segment(head * 3 * n, 3 * n);
      state = decay * state + all.segment(n, n).transpose() * all.tail(n);
      o.row(t).segment(head * n, n) = all.head(n) * state;
    }
  }
  return finish(model, layer, o, linear(h, w.as_stored(kMixZ, layer)));
}

}  // namespace

Matrix recurrent(const Model& model, size_t layer, const Matrix& h) {
  switch (model.config.recurrent.rule) {
    case RecurrentRule::kShortConv: return short_convolution(model, layer, h);
    case RecurrentRule::kMamba1: return mamba1(model, layer, h);
    case RecurrentRule::kMamba2: return mamba2(model, layer, h);
    case RecurrentRule::kGatedDelta:
    case RecurrentRule::kKeyedDelta: return delta_rule(model, layer, h);
    case RecurrentRule::kLightning: return lightning(model, layer, h);
    case RecurrentRule::kNone: break;
  }
  return {};
}

}  // namespace ibid::oracle
