// Short convolutions and states of recurrent layers over 16 lanes, which are independent channels or columns of a
// state. Included after vec_<isa>.h and elementwise-inl.h, once per instruction set; ref_recurrent.cc is the scalar
// reference.
#pragma once

#include <cstring>

#include "kernels/kernels.h"
#include "kernels/simd/math-inl.h"

namespace ibid::IBID_ISA {
namespace {

void softplus_row(const float* x, const float* bias, size_t n, float* y) {
  for (size_t i = 0; i < n; i += 16) {
    store_upto(y + i, softplus(add(load_upto(x + i, n - i), load_upto(bias + i, n - i))), n - i);
  }
}

void decay_row(const float* steps, const float* rates, size_t n, float* y) {
  for (size_t i = 0; i < n; i += 16) {
    store_upto(y + i, exp(mul(load_upto(steps + i, n - i), load_upto(rates + i, n - i))), n - i);
  }
}

// Row r of the input, counted from the first row of the history; nullptr: zeros.
IBID_INLINE const float* conv_input(const ConvStep& s, size_t r) {
  if (r + 1 >= s.n_taps) return s.x + (r + 1 - s.n_taps) * s.x_stride;
  return s.history == nullptr ? nullptr : s.history + r * s.history_stride;
}

// Computes row by row, not channel by channel, because rows are often whole memory pages apart.
void short_conv(const ConvStep& s, Range channels) {
  for (size_t t = 0; t < s.n_rows; ++t) {
    for (size_t c = channels.begin; c < channels.end; c += 16) {
      const size_t n = channels.end - c;
      V16 sum = s.bias == nullptr ? zero() : load_upto(s.bias + c, n);
      for (size_t j = 0; j < s.n_taps; ++j) {
        const float* row = conv_input(s, t + j);
        const V16 x = row == nullptr ? zero() : load_upto(row + c, n);
        sum = fma(load_upto(s.weight + j * s.weight_stride + c, n), x, sum);
      }
      store_upto(s.y + t * s.y_stride + c, s.silu ? silu(sum) : sum, n);
    }
  }
}

// Updates kN vectors of columns of the state S, from `column` on, with all rows of the step while they stay in the L1
// cache. Reads S at `from` and writes it at `to`, both in rows of `width` floats. While the new S is in registers,
// `predicted` sums what S predicts for the next row.
template <size_t kN, bool kDelta, bool kPerKey>
IBID_INLINE void update_columns(const StateStep& s, size_t column, size_t width, const float* from, float* to) {
  V16 predicted[kN];
  for (V16& sum : predicted) sum = zero();
  for (size_t i = 0; kDelta && i < s.n_keys; ++i) {
    const V16 key = set1(s.decayed_keys[i]);
    for (size_t n = 0; n < kN; ++n) predicted[n] = fma(load(from + i * width + 16 * n), key, predicted[n]);
  }
  for (size_t t = 0; t < s.n_rows; ++t) {
    const float* keys = s.keys + t * s.key_stride;
    const float* queries = s.queries + t * s.key_stride;
    const float* ahead = s.decayed_keys + (t + 1 < s.n_rows ? t + 1 : t) * s.key_stride;
    const float* decays = s.decays + t * (kPerKey ? s.key_stride : s.number_stride);
    const float* values = s.values + t * s.value_stride + column;
    const size_t left = s.n_values - column;
    const V16 rate = set1(s.rates == nullptr ? 1.0f : s.rates[t * s.number_stride]);
    V16 u[kN], out[kN], next[kN];
    for (size_t n = 0; n < kN; ++n) {
      const V16 v = load_upto(values + 16 * n, left - 16 * n);
      u[n] = mul(rate, kDelta ? sub(v, predicted[n]) : v);
      out[n] = next[n] = zero();
    }
    V16 decay = set1(decays[0]);
    for (size_t i = 0; i < s.n_keys; ++i) {
      if constexpr (kPerKey) decay = set1(decays[i]);
      const V16 key = set1(keys[i]), query = set1(queries[i]);
      for (size_t n = 0; n < kN; ++n) {
        const V16 x = fma(key, u[n], mul(decay, load(from + i * width + 16 * n)));
        store(to + i * width + 16 * n, x);
        out[n] = fma(x, query, out[n]);
        if constexpr (kDelta) next[n] = fma(x, set1(ahead[i]), next[n]);
      }
    }
    for (size_t n = 0; n < kN; ++n) {
      predicted[n] = next[n];
      if (s.out == nullptr) continue;
      const V16 v = load_upto(values + 16 * n, left - 16 * n);
      store_upto(s.out + t * s.out_stride + column + 16 * n, fma(set1(s.skip), v, out[n]), left - 16 * n);
    }
    from = to;
  }
}

// Updates one tile: all at once if it fits in registers, else one vector of columns at a time.
template <bool kDelta, bool kPerKey>
void update_tile(const StateStep& s, size_t column, size_t width, const float* from, float* to) {
  if (kTilePanels == 4 && width == 64) return update_columns<4, kDelta, kPerKey>(s, column, width, from, to);
  if (kTilePanels == 4 && width == 32) return update_columns<2, kDelta, kPerKey>(s, column, width, from, to);
  for (size_t c = 0; c < width; c += 16) {
    update_columns<1, kDelta, kPerKey>(s, column + c, width, from + c, to + c);
  }
}

void update_state(const StateStep& s) {
  const size_t columns = state_columns(s.n_values);
  const float* before = s.before;
  if (before == nullptr) {
    std::memset(s.after, 0, s.n_keys * columns * sizeof(float));
    before = s.after;
  }
  const auto tile = s.delta ? (s.decay_per_key ? update_tile<true, true> : update_tile<true, false>)
                            : (s.decay_per_key ? update_tile<false, true> : update_tile<false, false>);
  for (size_t c = 0; c < columns; c += kStateTile) {
    tile(s, c, columns - c < kStateTile ? columns - c : kStateTile, before + c * s.n_keys, s.after + c * s.n_keys);
  }
}

void scan_lanes(const ScanStep& s, size_t c, size_t n, const float* from, float* to) {
  for (size_t t = 0; t < s.n_rows; ++t) {
    const V16 dt = load_upto(s.steps + t * s.channel_stride + c, n);
    const V16 x = load_upto(s.values + t * s.value_stride + c, n);
    const V16 u = mul(dt, x);
    V16 out = zero();
    for (size_t i = 0; i < s.n_states; ++i) {
      const V16 decay = exp(mul(dt, load_upto(s.rates + i * s.rate_stride + c, n)));
      const V16 h = fma(set1(s.keys[t * s.state_stride + i]), u, mul(decay, load(from + 16 * i)));
      store(to + 16 * i, h);
      out = fma(h, set1(s.queries[t * s.state_stride + i]), out);
    }
    if (s.out != nullptr) {
      store_upto(s.out + t * s.out_stride + c, fma(load_upto(s.skip + c, n), x, out), n);
    }
    from = to;
  }
}

void selective_scan(const ScanStep& s, Range channels) {
  for (size_t c = channels.begin; c < channels.end; c += 16) {
    float* to = s.after + c * s.n_states;
    const float* from = s.before == nullptr ? to : s.before + c * s.n_states;
    if (s.before == nullptr) std::memset(to, 0, 16 * s.n_states * sizeof(float));
    scan_lanes(s, c, channels.end - c, from, to);
  }
}

void fill_recurrent(Kernels& table) {
  table.softplus = softplus_row;
  table.decay = decay_row;
  table.short_conv = short_conv;
  table.update_state = update_state;
  table.selective_scan = selective_scan;
}

}  // namespace
}  // namespace ibid::IBID_ISA
