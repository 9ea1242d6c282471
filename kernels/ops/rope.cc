#include "kernels/ops/rope.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/portable_math.h"

namespace ibid {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Returns the fractional index of the pair that makes `turns` turns within the original context.
double yarn_pair(const RopeRule& rule, double turns) {
  return static_cast<double>(rule.rotary_dim) * portable_log(rule.original_max_positions / (turns * 2 * kPi)) /
         (2 * portable_log(rule.theta));
}

// Weight of a pair's divided frequency: a linear ramp from 0 at pair `low` to 1 at pair `high`. The original frequency
// has the remaining weight.
struct YarnRamp {
  explicit YarnRamp(const RopeRule& rule)
      : low(yarn_pair(rule, rule.beta_fast)), high(yarn_pair(rule, rule.beta_slow)) {
    if (rule.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(rule.rotary_dim - 1));
    if (low == high) high += 0.001;
  }
  double at(size_t pair) const { return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0); }
  double low, high;
};

const std::vector<float>& factors_of(const RopeRule& rule, size_t context) {
  return uses_short_factors(rule, context) ? rule.short_factors : rule.frequency_factors;
}

double plain_frequency(double theta, size_t pair, size_t rotary_dim) {
  return portable_pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(rotary_dim));
}

}  // namespace

std::vector<float> llama3_frequency_factors(const Llama3Rule& llama3, double theta, size_t rotary_dim) {
  std::vector<float> factors;
  for (size_t i = 0; i < rotary_dim / 2; ++i) {
    const double turns = llama3.original_max_positions * plain_frequency(theta, i, rotary_dim) / (2 * kPi);
    const double low = llama3.low_freq_factor, high = llama3.high_freq_factor;
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - kept) / llama3.factor + kept)));
  }
  return factors;
}

bool uses_short_factors(const RopeRule& rule, size_t context) {
  return rule.kind == RopeRule::Kind::kLongrope && static_cast<double>(context) <= rule.original_max_positions;
}

RopeTable make_rope_table(const RopeRule& rule, size_t context) {
  const size_t half = rule.rotary_dim / 2;
  const std::vector<float>& factors = factors_of(rule, context);
  CHECK(factors.empty() || factors.size() == half)
      << "rope: " << factors.size() << " frequency factors for " << half << " frequencies";
  const bool yarn = rule.kind == RopeRule::Kind::kYarn;
  const YarnRamp ramp(rule);
  RopeTable table;
  table.magnitude = rule.magnitude;
  table.inv_freq.resize(half);
  for (size_t i = 0; i < half; ++i) {
    double frequency = plain_frequency(rule.theta, i, rule.rotary_dim);
    if (rule.kind == RopeRule::Kind::kLinear) frequency /= rule.factor;
    if (yarn) frequency = ramp.at(i) * frequency / rule.factor + (1 - ramp.at(i)) * frequency;
    if (!factors.empty()) frequency /= static_cast<double>(factors[i]);
    table.inv_freq[i] = rule.n_rotated_pairs == 0 || i < rule.n_rotated_pairs ? frequency : 0.0;
  }
  return table;
}

void rope_angles(const RopeTable& table, size_t position, float* cos_sin) {
  const size_t half = table.inv_freq.size();
  for (size_t i = 0; i < half; ++i) {
    const SinCos angle = portable_sin_cos(static_cast<double>(position) * table.inv_freq[i]);
    cos_sin[i] = static_cast<float>(angle.cos * table.magnitude);
    cos_sin[half + i] = static_cast<float>(angle.sin * table.magnitude);
  }
}

}  // namespace ibid
