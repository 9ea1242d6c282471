#include "model/forward/moe_router.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/portable_math.h"

namespace ibid {

namespace {

constexpr float kTaken = -std::numeric_limits<float>::infinity();

// The largest value, the first of them where several are equal.
size_t best_of(std::span<const float> values) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

void softmax(std::span<float> values) {
  const float largest = values[best_of(values)];
  float sum = 0;
  for (float& value : values) {
    value = portable_exp(value - largest);
    sum += value;
  }
  for (float& value : values) value /= sum;
}

float sigmoid(float x) { return 1.0f / (1.0f + portable_exp(-x)); }

void score(RouterScores kind, std::span<const float> logits, std::span<float> scores) {
  std::copy(logits.begin(), logits.end(), scores.begin());
  if (kind == RouterScores::kSoftmax) softmax(scores);
  if (kind != RouterScores::kSigmoid) return;
  for (float& value : scores) value = sigmoid(value);
}

float two_best(std::span<const float> values) {
  float best = kTaken, second = kTaken;
  for (const float value : values) {
    second = std::max(second, std::min(best, value));
    best = std::max(best, value);
  }
  return best + second;
}

// Takes the experts of all but the best groups out of the choice.
void keep_best_groups(const RouterRule& rule, std::span<float> choice, std::span<float> groups) {
  const size_t size = rule.n_experts / rule.n_groups;
  for (size_t g = 0; g < rule.n_groups; ++g) groups[g] = two_best(choice.subspan(g * size, size));
  for (size_t i = 0; i < rule.n_groups_active; ++i) groups[best_of(groups)] = kTaken;
  for (size_t g = 0; g < rule.n_groups; ++g) {
    if (groups[g] != kTaken) std::fill_n(choice.begin() + static_cast<std::ptrdiff_t>(g * size), size, kTaken);
  }
}

// Marks the best n_experts_active of `choice` and lists them by their numbers.
void take_best(std::span<float> choice, std::span<const float> scores, std::span<ExpertChoice> chosen) {
  for (size_t i = 0; i < chosen.size(); ++i) {
    const size_t best = best_of(choice);
    choice[best] = kTaken;
    chosen[i] = {static_cast<uint32_t>(best), scores[best]};
  }
  std::sort(chosen.begin(), chosen.end(), [](ExpertChoice a, ExpertChoice b) { return a.expert < b.expert; });
}

void softmax_of(std::span<ExpertChoice> chosen) {
  float largest = chosen[0].weight;
  for (const ExpertChoice& c : chosen) largest = std::max(largest, c.weight);
  float sum = 0;
  for (ExpertChoice& c : chosen) {
    c.weight = portable_exp(c.weight - largest);
    sum += c.weight;
  }
  for (ExpertChoice& c : chosen) c.weight /= sum;
}

void normalize(const RouterRule& rule, std::span<ExpertChoice> chosen) {
  float sum = 0;
  for (const ExpertChoice& c : chosen) sum += c.weight;
  const float divisor = std::max(sum, rule.smallest_sum);
  for (ExpertChoice& c : chosen) c.weight /= divisor;
}

}  // namespace

bool route(const RouterRule& rule, std::span<const float> logits, std::span<const float> choice_bias,
           std::span<float> scratch, std::span<ExpertChoice> chosen) {
  DCHECK(logits.size() == rule.n_experts && chosen.size() == rule.n_experts_active);
  DCHECK(scratch.size() >= route_scratch_floats(rule));
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) {
    for (uint32_t i = 0; i < chosen.size(); ++i) chosen[i] = {i, 0.0f};
    return false;
  }
  const std::span<float> scores = scratch.first(rule.n_experts);
  const std::span<float> choice = scratch.subspan(rule.n_experts, rule.n_experts);
  score(rule.scores, logits, scores);
  std::copy(scores.begin(), scores.end(), choice.begin());
  for (size_t e = 0; e < choice_bias.size(); ++e) choice[e] += choice_bias[e];
  if (rule.n_groups > 1) keep_best_groups(rule, choice, scratch.subspan(2 * rule.n_experts, rule.n_groups));
  take_best(choice, scores, chosen);
  if (rule.scores == RouterScores::kSoftmaxOfChosen) softmax_of(chosen);
  if (rule.scores == RouterScores::kSigmoidOfChosen) {
    for (ExpertChoice& c : chosen) c.weight = sigmoid(c.weight);
  }
  if (rule.normalized) normalize(rule, chosen);
  for (ExpertChoice& c : chosen) c.weight *= rule.weight_scale;
  return true;
}

}  // namespace ibid
