#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/portable_math.h"
#include "kernels/ops/dispatch.h"
#include "tests/kernels/float_bits.h"

namespace ibid {
namespace {

class Recurrent : public ::testing::TestWithParam<Isa> {
 protected:
  const Kernels& ref() const { return kernels_for(Isa::kRef); }
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

// 64-byte aligned floats.
class Aligned {
 public:
  explicit Aligned(size_t n) : storage_(n + 16), n_(n) {}
  Aligned(size_t n, const std::vector<float>& values) : Aligned(n) { std::copy(values.begin(), values.end(), data()); }
  float* data() {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64 / sizeof(float);
  }
  std::vector<float> values() { return {data(), data() + n_}; }

 private:
  std::vector<float> storage_;
  size_t n_;
};

TEST_P(Recurrent, SoftplusAndDecayMatchRef) {
  FloatSequence sequence(1);
  for (const size_t n : {1u, 5u, 16u, 17u, 33u, 128u, 577u}) {
    for (const float range : {0.1f, 3.0f, 100.0f}) {
      const auto x = sequence.vector(n, -range, range), bias = sequence.vector(n, -1, 1);
      std::vector<float> want(n), got(n);
      ref().softplus(x.data(), bias.data(), n, want.data());
      kernels().softplus(x.data(), bias.data(), n, got.data());
      ASSERT_TRUE(same_bits(got, want)) << n;
      const auto rates = sequence.vector(n, -16, 0);
      ref().decay(want.data(), rates.data(), n, want.data());
      kernels().decay(got.data(), rates.data(), n, got.data());
      ASSERT_TRUE(same_bits(got, want)) << n;
    }
  }
}

// Parameters of a convolution.
struct ConvCase {
  size_t n_taps, n_channels, n_rows;
  bool bias, history, silu;
};

struct ConvData {
  ConvData(const ConvCase& of, uint64_t seed) {
    FloatSequence sequence(seed);
    stride = (of.n_channels + 15) / 16 * 16;
    weight = sequence.vector(of.n_taps * stride);
    bias = sequence.vector(stride);
    history = sequence.vector(of.n_taps * stride);
    x = sequence.vector(of.n_rows * stride, -3, 3);
    y.assign(of.n_rows * stride, 7.0f);
    step = {.n_taps = of.n_taps,
            .n_rows = of.n_rows,
            .weight = weight.data(),
            .weight_stride = stride,
            .bias = of.bias ? bias.data() : nullptr,
            .history = of.history ? history.data() : nullptr,
            .history_stride = stride,
            .x = x.data(),
            .x_stride = stride,
            .y = y.data(),
            .y_stride = stride,
            .silu = of.silu};
  }
  size_t stride;
  std::vector<float> weight, bias, history, x, y;
  ConvStep step;
};

TEST_P(Recurrent, ShortConvMatchesRef) {
  for (const size_t n_channels : {1u, 16u, 23u, 80u}) {
    for (const ConvCase& c :
         {ConvCase{4, n_channels, 7, true, true, true}, ConvCase{3, n_channels, 1, false, true, false},
          ConvCase{4, n_channels, 2, false, false, true}, ConvCase{1, n_channels, 3, true, false, false}}) {
      ConvData want(c, 2), got(c, 2);
      ref().short_conv(want.step, {0, n_channels});
      kernels().short_conv(got.step, {0, n_channels});
      ASSERT_TRUE(same_bits(got.y, want.y)) << n_channels;
      ConvData parts(c, 2);
      for (size_t begin = 0; begin < n_channels; begin += 16) {
        kernels().short_conv(parts.step, {begin, std::min(begin + 16, n_channels)});
      }
      ASSERT_TRUE(same_bits(parts.y, want.y)) << "in parts";
    }
  }
}

struct StateCase {
  size_t n_keys, n_values, n_rows;
  bool delta, per_key, fresh;
};

// The data of a head, with random inputs as large as in real layers.
struct StateData {
  StateData(const StateCase& of, uint64_t seed)
      : before(state_floats(of.n_keys, of.n_values)), after(state_floats(of.n_keys, of.n_values)) {
    FloatSequence sequence(seed);
    key_stride = (of.n_keys + 15) / 16 * 16;
    value_stride = of.n_values + 3;
    const float size = 1.0f / std::sqrt(static_cast<float>(of.n_keys));
    keys = sequence.vector(of.n_rows * key_stride, -size, size);
    queries = sequence.vector(of.n_rows * key_stride, -size, size);
    decays = sequence.vector(of.n_rows * key_stride, 0.3f, 1.0f);
    decayed = keys;
    for (size_t t = 0; t < of.n_rows; ++t) {
      for (size_t i = 0; i < key_stride; ++i) {
        decayed[t * key_stride + i] *= decays[of.per_key ? t * key_stride + i : t];
      }
    }
    values = sequence.vector(of.n_rows * value_stride + 16);
    rates = sequence.vector(of.n_rows, 0, 1);
    out.assign(of.n_rows * value_stride + 16, 7.0f);
    const size_t columns = state_columns(of.n_values);
    for (size_t i = 0; i < of.n_keys * columns; ++i) before.data()[i] = 0;
    for (size_t p = 0; p < of.n_values; ++p) {
      const size_t tile = p / kStateTile * kStateTile, width = std::min(kStateTile, columns - tile);
      for (size_t i = 0; i < of.n_keys; ++i) before.data()[tile * of.n_keys + i * width + p - tile] = sequence.next();
    }
    step = {.n_keys = of.n_keys,
            .n_values = of.n_values,
            .n_rows = of.n_rows,
            .delta = of.delta,
            .decay_per_key = of.per_key,
            .keys = keys.data(),
            .queries = queries.data(),
            .decayed_keys = decayed.data(),
            .decays = decays.data(),
            .key_stride = key_stride,
            .values = values.data(),
            .value_stride = value_stride,
            .rates = rates.data(),
            .number_stride = 1,
            .skip = of.delta ? 0.0f : 0.7f,
            .before = of.fresh ? nullptr : before.data(),
            .after = after.data(),
            .out = out.data(),
            .out_stride = value_stride};
  }
  // Returns rows [begin, end) of the step, which continue from the state `from`.
  StateStep rows(size_t begin, size_t end, const float* from) const {
    StateStep part = step;
    part.n_rows = end - begin;
    part.keys += begin * key_stride;
    part.queries += begin * key_stride;
    part.decayed_keys += begin * key_stride;
    part.decays += begin * (step.decay_per_key ? key_stride : 1);
    part.values += begin * value_stride;
    part.rates += begin;
    part.out += begin * value_stride;
    part.before = from;
    return part;
  }
  size_t key_stride, value_stride;
  std::vector<float> keys, queries, decays, decayed, values, rates, out;
  Aligned before, after;
  StateStep step;
};

const std::vector<StateCase>& state_cases() {
  static const std::vector<StateCase> cases = [] {
    std::vector<StateCase> all;
    for (const size_t n_values : {1u, 12u, 16u, 24u, 40u, 64u, 80u, 128u}) {
      for (const size_t n_keys : {1u, 12u, 16u, 130u}) {
        for (const bool delta : {false, true}) {
          for (const bool per_key : {false, true}) all.push_back({n_keys, n_values, 5, delta, per_key, n_keys == 12});
        }
      }
    }
    return all;
  }();
  return cases;
}

TEST_P(Recurrent, UpdateStateMatchesRef) {
  for (const StateCase& c : state_cases()) {
    StateData want(c, 3), got(c, 3);
    ref().update_state(want.step);
    kernels().update_state(got.step);
    ASSERT_TRUE(same_bits(got.out, want.out)) << c.n_keys << " by " << c.n_values << ", delta " << c.delta;
    ASSERT_TRUE(same_bits(got.after.values(), want.after.values())) << c.n_keys << " by " << c.n_values;
  }
}

// However rows are split into calls, outputs and the final state are the same.
TEST_P(Recurrent, StatesDoNotDependOnHowRowsAreSplit) {
  for (const StateCase& c : state_cases()) {
    StateData whole(c, 3), cut(c, 3);
    kernels().update_state(whole.step);
    kernels().update_state(cut.rows(0, 2, cut.step.before));
    kernels().update_state(cut.rows(2, 3, cut.after.data()));
    Aligned elsewhere(state_floats(c.n_keys, c.n_values));
    StateStep last = cut.rows(3, 5, cut.after.data());
    last.after = elsewhere.data();
    kernels().update_state(last);
    ASSERT_TRUE(same_bits(cut.out, whole.out)) << c.n_keys << " by " << c.n_values << ", delta " << c.delta;
    ASSERT_TRUE(same_bits(elsewhere.values(), whole.after.values())) << c.n_keys << " by " << c.n_values;
  }
}

struct ScanData {
  ScanData(size_t n_states, size_t n_channels, size_t n_rows, bool fresh, uint64_t seed)
      : before((n_channels + 15) / 16 * 16 * n_states), after((n_channels + 15) / 16 * 16 * n_states) {
    FloatSequence sequence(seed);
    steps = sequence.vector(n_rows * n_channels + 16, 0.001f, 2);
    values = sequence.vector(n_rows * n_channels + 16);
    keys = sequence.vector(n_rows * n_states);
    queries = sequence.vector(n_rows * n_states);
    rates = sequence.vector(n_states * n_channels + 16, -8, -0.01f);
    skip = sequence.vector(n_channels + 16);
    out.assign(n_rows * n_channels + 16, 7.0f);
    for (size_t c = 0; c < n_channels; ++c) {
      for (size_t i = 0; i < n_states; ++i) before.data()[c / 16 * 16 * n_states + i * 16 + c % 16] = sequence.next();
    }
    step = {.n_states = n_states,
            .n_rows = n_rows,
            .steps = steps.data(),
            .channel_stride = n_channels,
            .values = values.data(),
            .value_stride = n_channels,
            .keys = keys.data(),
            .queries = queries.data(),
            .state_stride = n_states,
            .rates = rates.data(),
            .rate_stride = n_channels,
            .skip = skip.data(),
            .before = fresh ? nullptr : before.data(),
            .after = after.data(),
            .out = out.data(),
            .out_stride = n_channels};
  }
  std::vector<float> steps, values, keys, queries, rates, skip, out;
  Aligned before, after;
  ScanStep step;
};

TEST_P(Recurrent, SelectiveScanMatchesRef) {
  for (const size_t n_channels : {1u, 16u, 37u, 128u}) {
    for (const size_t n_states : {1u, 8u, 16u}) {
      for (const bool fresh : {false, true}) {
        ScanData want(n_states, n_channels, 4, fresh, 5), got(n_states, n_channels, 4, fresh, 5);
        ref().selective_scan(want.step, {0, n_channels});
        for (size_t c = 0; c < n_channels; c += 16) {
          kernels().selective_scan(got.step, {c, std::min(c + 16, n_channels)});
        }
        ASSERT_TRUE(same_bits(got.out, want.out)) << n_channels << ", " << n_states;
        ASSERT_TRUE(same_bits(got.after.values(), want.after.values())) << n_channels << ", " << n_states;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Recurrent, ::testing::ValuesIn(vector_isas()),
                         [](const auto& of) { return std::string(isa_name(of.param)); });

TEST(RecurrentReference, RefKernelsAreCloseToExactMathematics) {
  const Kernels& ref = kernels_for(Isa::kRef);
  const Kernels& oracle = reference_kernels();
  for (double x = -86; x < 60; x += 0.0137) {
    const double want = std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0);
    const double at = static_cast<double>(static_cast<float>(x));
    const double rounded = std::log1p(std::exp(-std::abs(at))) + std::max(at, 0.0);
    ASSERT_NEAR(portable_softplus(static_cast<float>(x)), rounded, 4e-7 * want) << x;
  }
  for (const StateCase& c : state_cases()) {
    StateData a(c, 3), b(c, 3);
    ref.update_state(a.step);
    oracle.update_state(b.step);
    for (size_t i = 0; i < a.out.size(); ++i) ASSERT_NEAR(a.out[i], b.out[i], 3e-6);
  }
  ScanData a(16, 37, 9, false, 6), b(16, 37, 9, false, 6);
  ref.selective_scan(a.step, {0, 37});
  oracle.selective_scan(b.step, {0, 37});
  for (size_t i = 0; i < a.out.size(); ++i) ASSERT_NEAR(a.out[i], b.out[i], 1e-5);
  ConvData c({4, 80, 7, true, true, true}, 2), d({4, 80, 7, true, true, true}, 2);
  ref.short_conv(c.step, {0, 80});
  oracle.short_conv(d.step, {0, 80});
  for (size_t i = 0; i < c.y.size(); ++i) ASSERT_NEAR(c.y[i], d.y[i], 2e-6);
}

// The gated delta rule as in its paper: S = S (I - beta k k^T) d + beta v k^T, in double.
TEST(RecurrentReference, DeltaRuleMatchesItsPaper) {
  const size_t n_keys = 12, n_values = 20;
  StateData data({n_keys, n_values, 3, true, false, true}, 8);
  reference_kernels().update_state(data.step);
  std::vector<double> s(n_keys * n_values);
  for (size_t t = 0; t < 3; ++t) {
    const float* k = data.step.keys + t * data.key_stride;
    for (size_t p = 0; p < n_values; ++p) {
      double held = 0, out = 0;
      for (size_t i = 0; i < n_keys; ++i) held += double{data.decays[t]} * s[i * n_values + p] * double{k[i]};
      const double change = double{data.rates[t]} * (double{data.values[t * data.value_stride + p]} - held);
      for (size_t i = 0; i < n_keys; ++i) {
        double& x = s[i * n_values + p];
        x = double{data.decays[t]} * x + double{k[i]} * change;
        out += x * double{data.step.queries[t * data.key_stride + i]};
      }
      ASSERT_NEAR(data.out[t * data.value_stride + p], out, 1e-6);
    }
  }
}

}  // namespace
}  // namespace ibid
