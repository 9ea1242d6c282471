#include "tests/oracle/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/json_limits.h"

namespace ibid::oracle {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

double plain(const RopeRule& rule, Index pair) {
  return std::pow(rule.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(rule.rotary_dim));
}

// Peng et al. 2023 (YaRN), section 3.2: pairs with many rotations in the original context keep their frequency, and
// those with few are interpolated; in between there is a linear ramp over the pairs.
double yarn(const RopeRule& rule, Index pair) {
  const auto pair_with = [&](double is_rotated) {
    const double original = rule.original_max_positions;
    return static_cast<double>(rule.rotary_dim) * std::log(original / (is_rotated * kTurn)) /
           (2 * std::log(rule.theta));
  };
  double low = pair_with(rule.beta_fast), high = pair_with(rule.beta_slow);
  if (rule.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rule.rotary_dim) - 1);
  if (low == high) high += 0.001;  // as in transformers
  const double interpolated = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return plain(rule, pair) * (1 - interpolated) + plain(rule, pair) / rule.factor * interpolated;
}

struct Llama3 {
  double factor, low, high, original;
};

// Returns the numbers of Llama 3.1's rule, which only config.json has; GGUF has the resulting factors as a tensor.
std::optional<Llama3> llama3_of(const ModelFile& file) {
  if (file.config_json() == nullptr) return std::nullopt;
  const Json& whole = *file.config_json();
  const Json& config = whole.contains("text_config") ? whole.at("text_config") : whole;
  for (const char* section : {"rope_scaling", "rope_parameters"}) {
    const auto rule = config.find(section);
    if (rule == config.end() || !rule->is_object()) continue;
    if (rule->value("rope_type", rule->value("type", "")) != "llama3") continue;
    return Llama3{rule->at("factor").get<double>(), rule->at("low_freq_factor").get<double>(),
                  rule->at("high_freq_factor").get<double>(),
                  rule->at("original_max_position_embeddings").get<double>()};
  }
  return std::nullopt;
}

// The rule of Llama 3.1, by the wavelength of a pair (transformers, modeling_rope_utils).
double llama3(const Llama3& rule, double frequency) {
  const double wave = kTurn / frequency;
  if (wave < rule.original / rule.high) return frequency;
  if (wave > rule.original / rule.low) return frequency / rule.factor;
  const double kept = (rule.original / wave - rule.low) / (rule.high - rule.low);
  return (1 - kept) * frequency / rule.factor + kept * frequency;
}

}  // namespace

Rope make_rope(const ModelFile& file, const RopeRule& rule, size_t context) {
  const std::optional<Llama3> by_wave = llama3_of(file);
  // Ding et al. 2024 (LongRoPE): there are two lists of divisors, one of which is for an extended context.
  const bool extended = static_cast<double>(context) > rule.original_max_positions;
  const bool is_short = rule.kind == RopeRule::Kind::kLongrope && !extended;
  const std::vector<float>& divisors = is_short ? rule.short_factors : rule.frequency_factors;

  Rope rope{Vector(static_cast<Index>(rule.rotary_dim / 2)), rule.magnitude};
  for (Index i = 0; i < rope.frequencies.size(); ++i) {
    double frequency = rule.kind == RopeRule::Kind::kYarn ? yarn(rule, i) : plain(rule, i);
    if (rule.kind == RopeRule::Kind::kLinear) frequency /= rule.factor;
    if (by_wave) {
      frequency = llama3(*by_wave, frequency);
    } else if (!divisors.empty()) {
      frequency /= static_cast<double>(divisors[static_cast<size_t>(i)]);
    }
    const bool is_rotated = rule.n_rotated_pairs == 0 || i < static_cast<Index>(rule.n_rotated_pairs);
    rope.frequencies[i] = is_rotated ? frequency : 0;
  }
  return rope;
}

void rotate(const Rope& rope, Pairs pairs, Eigen::Ref<Matrix, 0, Eigen::OuterStride<>> head) {
  const Index n = rope.frequencies.size();
  for (Index position = 0; position < head.rows(); ++position) {
    for (Index i = 0; i < n; ++i) {
      double& x = head(position, pairs == Pairs::kHalves ? i : 2 * i);
      double& y = head(position, pairs == Pairs::kHalves ? i + n : 2 * i + 1);
      const double angle = static_cast<double>(position) * rope.frequencies[i];
      const double turned_x = rope.magnitude * (x * std::cos(angle) - y * std::sin(angle));
      y = rope.magnitude * (y * std::cos(angle) + x * std::sin(angle));
      x = turned_x;
    }
  }
}

}  // namespace ibid::oracle
