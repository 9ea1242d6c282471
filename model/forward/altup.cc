// AltUp in the forward pass: see altup.h. All of it but the products before the first and behind the last layer is
// steps on rows: no barriers.
#include "model/forward/altup.h"

#include <algorithm>
#include <cmath>

#include "model/forward/transformer.h"

namespace ibid {

namespace {

constexpr size_t kLanes = 16;
constexpr double kSmallestSquare = 1e-5;  // of magnitudes that are divided by

// In sixteen lanes and in double: of every instruction set the same.
double dot(const float* a, const float* b, size_t n) {
  double lanes[kLanes] = {};
  size_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] += static_cast<double>(a[k + i]) * static_cast<double>(b[k + i]);
  }
  for (; k < n; ++k) lanes[k % kLanes] += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

double mean_square(const float* x, size_t n) { return dot(x, x, n) / static_cast<double>(n); }

// The factor that gives `y` the magnitude of `x`.
float same_magnitude(const float* x, const float* y, size_t n) {
  return static_cast<float>(std::sqrt(mean_square(x, n)) / std::sqrt(std::max(mean_square(y, n), kSmallestSquare)));
}

}  // namespace

// Row i of this worker's scratch, D floats.
float* TransformerModel::scratch_row(const Part& p, size_t i) const {
  return acts_.scratch.row(static_cast<size_t>(p.worker.index())) + i * config_.dim;
}

// x_i = W_spread,i x, as large as x is.
void TransformerModel::spread_streams(Part& p) {
  const size_t n = config_.dim;
  norm(p, {}, {});                                                       // h = x                  [T, D]
  p.meet();
  for (size_t s = 0; s < config_.altup.n_streams; ++s) {
    if (s > 0) {
      linear(p.worker, linear_, weights_.streams[s - 1].spread, p.own.h, acts_.block_out.data, acts_.block_out.stride);
      p.worker.barrier();
    }
    for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
      const float* x = p.own.x.row(i);
      float* stream = p.own.streams.row(i) + s * n;
      std::copy_n(s == 0 ? x : acts_.block_out.row(i), n, stream);
      if (s > 0) kernels_->scale(stream, same_magnitude(x, stream, n), n);
    }
    p.worker.barrier();                                                  // block_out is read
  }
}

// c = tanh(W_router (norm(x) / D))
void TransformerModel::route_streams(const Part& p, const AltUpWeights& w, const float* x, float* coefficients) const {
  const size_t n = config_.dim;
  float* h = scratch_row(p, 0);
  kernels_->rms_norm(x, w.router_norm.data(), config_.norm_eps, n, h);
  kernels_->scale(h, 1.0f / static_cast<float>(n), n);
  for (size_t s = 0; s < config_.altup.n_streams; ++s) {
    coefficients[s] = static_cast<float>(dot(w.router.data() + s * n, h, n));
  }
  kernels_->softcap(coefficients, 1.0f, config_.altup.n_streams);
}

// x_i += sum over j of (W_predict c)[i n + j] x_j, all at once;  x = x_a
void TransformerModel::predict_streams(Part& p, size_t layer) {
  const AltUpWeights& w = weights_.layers[layer].altup;
  const size_t n = config_.dim, n_streams = config_.altup.n_streams;
  alignas(64) float c[kRoundedStreams];
  float* product = scratch_row(p, 0);
  float* predicted = scratch_row(p, 1);                                  // [n_streams, D]
  for (size_t row = p.rows.begin; row < p.rows.end; ++row) {
    float* streams = p.own.streams.row(row);
    route_streams(p, w, streams + config_.altup.active * n, c);
    std::copy_n(streams, n_streams * n, predicted);
    for (size_t i = 0; i < n_streams; ++i) {
      for (size_t j = 0; j < n_streams; ++j) {
        const double share = dot(w.predict.data() + (i * n_streams + j) * n_streams, c, n_streams);
        std::copy_n(streams + j * n, n, product);
        kernels_->scale(product, static_cast<float>(share), n);
        kernels_->add(predicted + i * n, product, n);
      }
    }
    std::copy_n(predicted, n_streams * n, streams);
    std::copy_n(streams + config_.altup.active * n, n, p.own.x.row(row));
  }
}

// x_i += (x - x_a) (1 + (W_correct c)[i]);  x = x_a, scaled
void TransformerModel::correct_streams(Part& p, size_t layer) {
  const AltUpWeights& w = weights_.layers[layer].altup;
  const size_t n = config_.dim, n_streams = config_.altup.n_streams;
  alignas(64) float c[kRoundedStreams];
  float* change = scratch_row(p, 1);
  float* product = scratch_row(p, 2);
  for (size_t row = p.rows.begin; row < p.rows.end; ++row) {
    float* x = p.own.x.row(row);
    float* streams = p.own.streams.row(row);
    float* active = streams + config_.altup.active * n;
    route_streams(p, w, x, c);
    std::copy_n(active, n, change);
    kernels_->scale(change, -1.0f, n);
    kernels_->add(change, x, n);
    for (size_t i = 0; i < n_streams; ++i) {
      std::copy_n(change, n, product);
      kernels_->scale(product, static_cast<float>(1.0 + dot(w.correct.data() + i * n_streams, c, n_streams)), n);
      kernels_->add(streams + i * n, product, n);
    }
    std::copy_n(active, n, x);
    if (!w.active_scale.empty()) kernels_->multiply(x, w.active_scale.data(), n);
  }
}

// x = the mean of x_0 and W_gather,i x_i, each as large as x_0 is.
void TransformerModel::gather_streams(Part& p) {
  const size_t n = config_.dim, n_streams = config_.altup.n_streams;
  p.worker.barrier();                                                    // block_out is read
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) std::copy_n(p.own.streams.row(i), n, p.own.x.row(i));
  for (size_t s = 1; s < n_streams; ++s) {
    for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
      std::copy_n(p.own.streams.row(i) + s * n, n, p.own.h.values + i * p.own.h.stride);
    }
    quantize(p, p.own.h);
    p.meet();
    linear(p.worker, linear_, weights_.streams[s - 1].gather, p.own.h, acts_.block_out.data, acts_.block_out.stride);
    p.worker.barrier();
    for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
      float* y = scratch_row(p, 0);
      std::copy_n(acts_.block_out.row(i), n, y);
      kernels_->scale(y, same_magnitude(p.own.streams.row(i), y, n), n);
      kernels_->add(p.own.x.row(i), y, n);
    }
    p.worker.barrier();
  }
  scale_rows(p, 1.0f / static_cast<float>(n_streams));
}

}  // namespace ibid
