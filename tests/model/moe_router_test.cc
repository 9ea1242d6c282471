// Routers: choices and weights compared with values computed by hand, and with a reference in double for logits with
// many ties.
#include "model/forward/moe_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace ibid {
namespace {

struct Routed {
  bool finite = false;
  std::vector<uint32_t> experts;
  std::vector<float> weights;
};

Routed route_row(const RouterRule& rule, const std::vector<float>& logits, const std::vector<float>& bias = {}) {
  std::vector<float> scratch(route_scratch_floats(rule));
  std::vector<ExpertChoice> chosen(rule.n_experts_active);
  Routed routed;
  routed.finite = route(rule, logits, bias, scratch, chosen);
  for (const ExpertChoice& c : chosen) {
    routed.experts.push_back(c.expert);
    routed.weights.push_back(c.weight);
  }
  return routed;
}

void expect_weights(const Routed& routed, const std::vector<uint32_t>& experts, const std::vector<double>& weights) {
  EXPECT_TRUE(routed.finite);
  EXPECT_EQ(routed.experts, experts);
  ASSERT_EQ(routed.weights.size(), weights.size());
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(routed.weights[i], weights[i], 1e-6) << i;
}

// e^log(n) = n, so the softmax of these logits is a ratio of integers.
const float kLog2 = std::log(2.0f), kLog3 = std::log(3.0f), kLog4 = std::log(4.0f);

TEST(MoeRouter, UnnormalizedSoftmaxMatchesHandComputation) {
  expect_weights(route_row({.n_experts = 4, .n_experts_active = 2}, {0, kLog4, kLog2, kLog3}), {1, 3}, {0.4, 0.3});
}

TEST(MoeRouter, NormalizedSoftmaxMatchesHandComputation) {
  const RouterRule rule{.n_experts = 4, .n_experts_active = 2, .normalized = true};
  expect_weights(route_row(rule, {0, kLog4, kLog2, kLog3}), {1, 3}, {4.0 / 7, 3.0 / 7});
}

TEST(MoeRouter, SoftmaxOverChosenExpertsMatchesHandComputation) {
  const RouterRule rule{.scores = RouterScores::kSoftmaxOfChosen, .n_experts = 4, .n_experts_active = 2};
  expect_weights(route_row(rule, {5, 5 + kLog3, 4, -80}), {0, 1}, {0.25, 0.75});
}

// Even if all sigmoids round to 1, the choice is made by the logits.
TEST(MoeRouter, SigmoidOfChosenExpertsMatchesHandComputation) {
  const RouterRule rule{.scores = RouterScores::kSigmoidOfChosen, .n_experts = 4, .n_experts_active = 2};
  expect_weights(route_row(rule, {-kLog3, -80, 0, -9}), {0, 2}, {0.25, 0.5});
  expect_weights(route_row(rule, {40, 60, 50, 45}), {1, 2}, {1, 1});
}

TEST(MoeRouter, ScaledSigmoidMatchesHandComputation) {
  const RouterRule rule{.scores = RouterScores::kSigmoid,
                        .n_experts = 3,
                        .n_experts_active = 2,
                        .normalized = true,
                        .weight_scale = 2.5f};
  // sigmoid(0) = 1/2, sigmoid(log 3) = 3/4.
  expect_weights(route_row(rule, {0, -9, kLog3}), {0, 2}, {1.0, 1.5});
}

TEST(MoeRouter, ChoiceBiasChangesChoiceButNotWeights) {
  const RouterRule rule{.scores = RouterScores::kSigmoid, .n_experts = 3, .n_experts_active = 1};
  expect_weights(route_row(rule, {0, kLog3, -kLog3}, {0.3f, 0, 0.6f}), {2}, {0.25});
}

TEST(MoeRouter, ExpertsAreChosenFromTheBestGroupsOnly) {
  // The groups are {0, 1}, {2, 3}, {4, 5}. The best expert overall is in a group whose second expert is bad.
  RouterRule rule{.scores = RouterScores::kSigmoid, .n_experts = 6, .n_experts_active = 2, .n_groups = 3};
  rule.n_groups_active = 1;
  const std::vector<float> logits = {kLog4, -kLog4, 0, kLog3, kLog2, 0};  // 0.8, 0.2 | 0.5, 0.75 | 0.667, 0.5
  expect_weights(route_row(rule, logits), {2, 3}, {0.5, 0.75});
  rule.n_groups_active = 2;
  expect_weights(route_row(rule, logits), {3, 4}, {0.75, 2.0 / 3});
  rule.n_groups_active = 3;
  expect_weights(route_row(rule, logits), {0, 3}, {0.8, 0.75});
}

TEST(MoeRouter, LowerExpertNumberWinsTies) {
  for (const RouterScores scores : {RouterScores::kSoftmax, RouterScores::kSoftmaxOfChosen, RouterScores::kSigmoid}) {
    EXPECT_EQ(route_row({.scores = scores, .n_experts = 5, .n_experts_active = 3}, {1, 2, 1, 1, 1}).experts,
              (std::vector<uint32_t>{0, 1, 2}));
    EXPECT_EQ(route_row({.scores = scores, .n_experts = 3, .n_experts_active = 1}, {-0.0f, 0.0f, -0.0f}).experts,
              (std::vector<uint32_t>{0}));
  }
  const RouterRule grouped{.scores = RouterScores::kSigmoid, .n_experts = 6, .n_experts_active = 2, .n_groups = 3};
  EXPECT_EQ(route_row(grouped, std::vector<float>(6, 1.0f)).experts, (std::vector<uint32_t>{0, 1}));
}

TEST(MoeRouter, TinyWeightsAreDividedByAtLeastTheSmallestSum) {
  const RouterRule rule{.scores = RouterScores::kSigmoid,
                        .n_experts = 2,
                        .n_experts_active = 2,
                        .normalized = true,
                        .smallest_sum = 1e-12f};
  const Routed routed = route_row(rule, {-80, -80});  // sigmoid(-80) is 1.8e-35
  EXPECT_TRUE(routed.finite);
  for (const float weight : routed.weights) EXPECT_LT(weight, 1e-20f);
}

TEST(MoeRouter, LogitsOfAnyFiniteSizeGiveFiniteWeights) {
  for (const RouterScores scores : {RouterScores::kSoftmax, RouterScores::kSoftmaxOfChosen, RouterScores::kSigmoid}) {
    for (const bool normalized : {false, true}) {
      const RouterRule rule{.scores = scores, .n_experts = 4, .n_experts_active = 2, .normalized = normalized};
      const float most = std::numeric_limits<float>::max();
      for (const float weight : route_row(rule, {most, -most, 1e30f, -1e30f}).weights) {
        EXPECT_TRUE(std::isfinite(weight) && weight >= 0) << weight;
      }
    }
  }
}

TEST(MoeRouter, NonFiniteLogitIsReported) {
  const RouterRule rule{.n_experts = 4, .n_experts_active = 2};
  for (const float bad :
       {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    const Routed routed = route_row(rule, {1, 2, bad, 3});
    EXPECT_FALSE(routed.finite);
    EXPECT_EQ(routed.experts, (std::vector<uint32_t>{0, 1}));
    EXPECT_EQ(routed.weights, (std::vector<float>{0, 0}));
  }
}

// The reference in double, which chooses by sorting.
Routed naive(const RouterRule& rule, const std::vector<float>& logits, const std::vector<float>& bias) {
  const size_t n = rule.n_experts;
  std::vector<double> scores(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : scores) sum += std::exp(logit);
  for (double& value : scores) {
    if (rule.scores == RouterScores::kSoftmax) value = std::exp(value) / sum;
    if (rule.scores == RouterScores::kSigmoid) value = 1 / (1 + std::exp(-value));
  }
  std::vector<double> choice = scores;
  for (size_t e = 0; e < bias.size(); ++e) choice[e] += static_cast<double>(bias[e]);
  const auto order_of = [](const std::vector<double>& values) {
    std::vector<uint32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
    return order;
  };
  if (rule.n_groups > 1) {
    const size_t size = n / rule.n_groups;
    std::vector<double> groups(rule.n_groups);
    for (size_t g = 0; g < rule.n_groups; ++g) {
      std::vector<double> members(choice.begin() + static_cast<std::ptrdiff_t>(g * size),
                                  choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
      std::sort(members.rbegin(), members.rend());
      groups[g] = members[0] + members[1];
    }
    const std::vector<uint32_t> order = order_of(groups);
    for (size_t i = rule.n_groups_active; i < order.size(); ++i) {
      for (size_t e = 0; e < size; ++e) choice[order[i] * size + e] = -INFINITY;
    }
  }
  Routed routed{.finite = true};
  routed.experts = order_of(choice);
  routed.experts.resize(rule.n_experts_active);
  std::sort(routed.experts.begin(), routed.experts.end());
  double total = 0;
  const bool of_chosen = rule.scores == RouterScores::kSoftmaxOfChosen;
  for (const uint32_t e : routed.experts) total += of_chosen ? std::exp(scores[e]) : scores[e];
  for (const uint32_t e : routed.experts) {
    double weight = of_chosen ? std::exp(scores[e]) / total : scores[e];
    if (rule.normalized && !of_chosen) weight /= total;
    routed.weights.push_back(static_cast<float>(weight * static_cast<double>(rule.weight_scale)));
  }
  return routed;
}

TEST(MoeRouter, RouterMatchesAReferenceInDouble) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const size_t group_size = 2 + random() % 7, n_groups = random() % 2 == 0 ? 1 : 2 + random() % 5;
    RouterRule rule{.n_experts = group_size * n_groups, .n_groups = n_groups};
    rule.scores = static_cast<RouterScores>(random() % 3);
    rule.n_groups_active = 1 + random() % n_groups;
    rule.n_experts_active = 1 + random() % (rule.n_groups_active * group_size);
    rule.normalized = random() % 2 == 0;
    rule.weight_scale = random() % 2 == 0 ? 1.0f : 2.5f;
    // Use few different logits, so that many rows have ties. But sums of groups must not be equal only before rounding
    // (as with both -x and x). With a bias and groups such sums would occur, so then all logits differ.
    std::vector<float> logits(rule.n_experts), bias(random() % 2 == 0 ? 0 : rule.n_experts);
    const bool ties = n_groups == 1 || bias.empty();
    for (float& logit : logits) {
      logit =
          ties ? static_cast<float>(random() % 9) * 0.75f - 2.875f : static_cast<float>(random() % 60000) * 1e-4f - 3;
    }
    for (float& value : bias) value = static_cast<float>(random() % 3) * 4.0f;
    const Routed got = route_row(rule, logits, bias), wanted = naive(rule, logits, bias);
    ASSERT_EQ(got.experts, wanted.experts) << "draw " << i;
    for (size_t e = 0; e < got.weights.size(); ++e)
      ASSERT_NEAR(got.weights[e], wanted.weights[e], 2e-6) << "draw " << i;
  }
}

}  // namespace
}  // namespace ibid
