// Scalar reference kernels of recurrent-inl.h, and the oracle's versions with sums in double.
#include <algorithm>
#include <cmath>

#include "base/portable_math.h"
#include "kernels/reference/ref.h"

namespace ibid {
namespace {

void softplus(const float* x, const float* bias, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = portable_softplus(x[i] + bias[i]);
}

void decay(const float* steps, const float* rates, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = portable_exp(steps[i] * rates[i]);
}

// Returns one channel of row r of the input; rows are counted from the first row of the history.
float conv_input(const ConvStep& s, size_t r, size_t channel) {
  if (r + 1 >= s.n_taps) return s.x[(r + 1 - s.n_taps) * s.x_stride + channel];
  return s.history == nullptr ? 0.0f : s.history[r * s.history_stride + channel];
}

void short_conv(const ConvStep& s, Range channels) {
  for (size_t t = 0; t < s.n_rows; ++t) {
    for (size_t c = channels.begin; c < channels.end; ++c) {
      float sum = s.bias == nullptr ? 0.0f : s.bias[c];
      for (size_t j = 0; j < s.n_taps; ++j) {
        sum = std::fma(s.weight[j * s.weight_stride + c], conv_input(s, t + j, c), sum);
      }
      s.y[t * s.y_stride + c] = s.silu ? sum / (1.0f + portable_exp(-sum)) : sum;
    }
  }
}

// Index of S[key][column].
size_t state_index(const StateStep& s, size_t key, size_t column) {
  const size_t tile = column / kStateTile * kStateTile;
  const size_t width = std::min(kStateTile, state_columns(s.n_values) - tile);
  return tile * s.n_keys + key * width + (column - tile);
}

size_t scan_index(const ScanStep& s, size_t channel, size_t n) {
  return channel / 16 * s.n_states * 16 + n * 16 + channel % 16;
}

// Updates one column of S by one row. Sum: type of the accumulators.
template <typename Sum>
void update_column(const StateStep& s, size_t t, size_t p) {
  const float* keys = s.keys + t * s.key_stride;
  const float* queries = s.queries + t * s.key_stride;
  const float* decays = s.decays + t * (s.decay_per_key ? s.key_stride : s.number_stride);
  const float rate = s.rates == nullptr ? 1.0f : s.rates[t * s.number_stride];
  const float v = p < s.n_values ? s.values[t * s.value_stride + p] : 0.0f;
  Sum predicted = 0, out = 0;
  for (size_t i = 0; s.delta && i < s.n_keys; ++i) {
    predicted = std::fma(Sum{s.after[state_index(s, i, p)]}, Sum{s.decayed_keys[t * s.key_stride + i]}, predicted);
  }
  const Sum u = Sum{rate} * (s.delta ? Sum{v} - predicted : Sum{v});
  for (size_t i = 0; i < s.n_keys; ++i) {
    float& x = s.after[state_index(s, i, p)];
    const float d = s.decay_per_key ? decays[i] : decays[0];
    x = static_cast<float>(std::fma(Sum{keys[i]}, u, Sum{d} * Sum{x}));
    out = std::fma(Sum{x}, Sum{queries[i]}, out);
  }
  if (s.out == nullptr || p >= s.n_values) return;
  s.out[t * s.out_stride + p] = static_cast<float>(std::fma(Sum{s.skip}, Sum{v}, out));
}

template <typename Sum>
void update_state(const StateStep& s) {
  const size_t columns = state_columns(s.n_values);
  if (s.before == nullptr) std::fill_n(s.after, s.n_keys * columns, 0.0f);
  if (s.before != nullptr && s.before != s.after) std::copy_n(s.before, s.n_keys * columns, s.after);
  for (size_t t = 0; t < s.n_rows; ++t) {
    for (size_t p = 0; p < columns; ++p) update_column<Sum>(s, t, p);
  }
}

float exp_of(float x) { return portable_exp(x); }
double exp_of(double x) { return std::exp(x); }

template <typename Sum>
void scan_row(const ScanStep& s, size_t t, size_t c) {
  const float x = s.values[t * s.value_stride + c], dt = s.steps[t * s.channel_stride + c];
  const Sum u = Sum{dt} * Sum{x};
  Sum out = 0;
  for (size_t i = 0; i < s.n_states; ++i) {
    const size_t at = scan_index(s, c, i);
    const Sum decay = exp_of(Sum{dt} * Sum{s.rates[i * s.rate_stride + c]});
    s.after[at] = static_cast<float>(std::fma(Sum{s.keys[t * s.state_stride + i]}, u, decay * Sum{s.after[at]}));
    out = std::fma(Sum{s.after[at]}, Sum{s.queries[t * s.state_stride + i]}, out);
  }
  if (s.out != nullptr) s.out[t * s.out_stride + c] = static_cast<float>(std::fma(Sum{s.skip[c]}, Sum{x}, out));
}

template <typename Sum>
void selective_scan(const ScanStep& s, Range channels) {
  const size_t begin = channels.begin * s.n_states;
  const size_t n = (channels.size() + 15) / 16 * 16 * s.n_states;
  if (s.before == nullptr) std::fill_n(s.after + begin, n, 0.0f);
  if (s.before != nullptr && s.before != s.after) std::copy_n(s.before + begin, n, s.after + begin);
  for (size_t t = 0; t < s.n_rows; ++t) {
    for (size_t c = channels.begin; c < channels.end; ++c) scan_row<Sum>(s, t, c);
  }
}

void reference_softplus(const float* x, const float* bias, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const double sum = double{x[i]} + double{bias[i]};
    y[i] = static_cast<float>(std::log1p(std::exp(-std::abs(sum))) + std::max(sum, 0.0));
  }
}

void reference_decay(const float* steps, const float* rates, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(std::exp(double{steps[i]} * double{rates[i]}));
}

void reference_short_conv(const ConvStep& s, Range channels) {
  for (size_t t = 0; t < s.n_rows; ++t) {
    for (size_t c = channels.begin; c < channels.end; ++c) {
      double sum = s.bias == nullptr ? 0.0 : double{s.bias[c]};
      for (size_t j = 0; j < s.n_taps; ++j) {
        sum += double{s.weight[j * s.weight_stride + c]} * double{conv_input(s, t + j, c)};
      }
      s.y[t * s.y_stride + c] = static_cast<float>(s.silu ? sum / (1.0 + std::exp(-sum)) : sum);
    }
  }
}

}  // namespace

void fill_ref_recurrent(Kernels& table) {
  table.softplus = softplus;
  table.decay = decay;
  table.short_conv = short_conv;
  table.update_state = update_state<float>;
  table.selective_scan = selective_scan<float>;
}

void fill_reference_recurrent(Kernels& table) {
  table.softplus = reference_softplus;
  table.decay = reference_decay;
  table.short_conv = reference_short_conv;
  table.update_state = update_state<double>;
  table.selective_scan = selective_scan<double>;
}

}  // namespace ibid
