#include "kernels/rope.h"

#include "base/check.h"
#include "kernels/portable_math.h"

namespace ibid {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Long waves are stretched by `factor`, short ones kept, those between mixed linearly in the number of
// turns they make within the original context. (transformers, modeling_rope_utils, "llama3")
double llama3_frequency(const RopeRule& rule, double frequency) {
  const double turns = rule.original_max_positions * frequency / (2 * kPi);
  if (turns < rule.low_freq_factor) return frequency / rule.factor;
  if (turns > rule.high_freq_factor) return frequency;
  const double kept = (turns - rule.low_freq_factor) / (rule.high_freq_factor - rule.low_freq_factor);
  return (1 - kept) * frequency / rule.factor + kept * frequency;
}

}  // namespace

RopeTable make_rope_table(const RopeRule& rule) {
  const size_t half = rule.rotary_dim / 2;
  CHECK(rule.frequency_factors.empty() || rule.frequency_factors.size() == half)
      << "rope: " << rule.frequency_factors.size() << " frequency factors for " << half << " frequencies";
  RopeTable table;
  table.inv_freq.resize(half);
  for (size_t i = 0; i < half; ++i) {
    double frequency =
        portable_pow(rule.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rule.rotary_dim));
    if (rule.kind == RopeRule::Kind::kLinear) frequency /= rule.factor;
    if (rule.kind == RopeRule::Kind::kLlama3) frequency = llama3_frequency(rule, frequency);
    if (!rule.frequency_factors.empty()) frequency /= static_cast<double>(rule.frequency_factors[i]);
    table.inv_freq[i] = frequency;
  }
  return table;
}

void rope_angles(const RopeTable& table, size_t position, float* cos_sin) {
  const size_t half = table.inv_freq.size();
  for (size_t i = 0; i < half; ++i) {
    const SinCos angle = portable_sin_cos(static_cast<double>(position) * table.inv_freq[i]);
    cos_sin[i] = static_cast<float>(angle.cos * static_cast<double>(table.magnitude));
    cos_sin[half + i] = static_cast<float>(angle.sin * static_cast<double>(table.magnitude));
  }
}

}  // namespace ibid
