#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace ibid {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(LogprobsTest, LogprobsMatchReferenceSoftmaxAndSort) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    std::vector<float> logits(1 + random() % 300);
    // Half of the rounds have many equal logits.
    for (float& x : logits)
      x = static_cast<float>(random() % (round % 2 == 0 ? 8 : 100'000)) / (round % 2 == 0 ? 1 : 5e3f);
    if (round % 3 == 0) logits[random() % logits.size()] = -kInf;
    const auto max = static_cast<long double>(*std::max_element(logits.begin(), logits.end()));
    if (std::isinf(max)) continue;
    long double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<long double>(x) - max);
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    while (logits[order.back()] == -kInf) order.pop_back();

    const size_t n_top = random() % (kMaxTopLogprobs + 1);
    const size_t id = order[random() % order.size()];
    const TokenLogprobs out = token_logprobs(logits, static_cast<TokenId>(id), n_top);
    const auto wanted = [&](size_t i) { return static_cast<double>(logits[i] - max - std::log(sum)); };
    EXPECT_EQ(out.id, static_cast<TokenId>(id));
    EXPECT_NEAR(out.logprob, wanted(id), 1e-12);
    ASSERT_EQ(out.top.size(), std::min(n_top, order.size()));
    for (size_t i = 0; i < out.top.size(); ++i) {
      EXPECT_EQ(out.top[i].id, static_cast<TokenId>(order[i]));
      EXPECT_NEAR(out.top[i].logprob, wanted(order[i]), 1e-12);
    }
  }
}

TEST(LogprobsTest, RequestedTokensAreListedWithTheSampledToken) {
  const std::vector<float> logits = {1, 5, -kInf, 3, 2};
  const auto ids = [](const TokenLogprobs& out) {
    Tokens listed;
    for (const auto& likely : out.top) listed.push_back(likely.id);
    return listed;
  };
  const TokenLogprobs all = token_logprobs(logits, 1, 5);
  const TokenLogprobs out = token_logprobs(logits, 4, Tokens{0, 3, 0, 2});
  EXPECT_EQ(ids(out), (Tokens{3, 4, 0})) << "in descending order, each once, possible tokens only";
  EXPECT_EQ(out.top[0].logprob, all.top[1].logprob);
  EXPECT_EQ(out.logprob, out.top[1].logprob);
  EXPECT_EQ(ids(token_logprobs(logits, 4, Tokens{4})), (Tokens{4}));
}

TEST(LogprobsTest, LogprobsStayFiniteIfProbabilitiesUnderflow) {
  const std::vector<float> far = {-3e38f, 0.0f, 3e38f, -kInf};
  EXPECT_EQ(token_logprobs(far, 2, 20).logprob, 0);
  EXPECT_EQ(token_logprobs(far, 2, 20).top.size(), 3u) << "impossible tokens are not listed";
  EXPECT_EQ(token_logprobs(far, 0, 1).logprob, -2.0 * 3e38f);
  EXPECT_EQ(token_logprobs(std::vector<float>{-5}, 0, 2).logprob, 0);
}

TEST(LogprobsTest, LogprobsAfterSamplingCountOnlyTokensThatCouldBeDrawn) {
  const std::vector<float> logits = {0.0f, 2.0f, -kInf, 1.0f, -1.0f};
  SamplerOptions options{.temperature = 2, .top_k = 2, .seed = 7};
  options.logit_bias = {{0, 5}};  // the most likely token becomes that of id 0
  Sampler sampler = *Sampler::create(options);
  const double sum = std::exp(5.0 / 2) + std::exp(2.0 / 2);
  for (int i = 0; i < 20; ++i) {
    const TokenId id = *sampler.sample(logits);
    const TokenLogprobs out = sampler.drawn_logprobs(id, 20);
    ASSERT_TRUE(id == 0 || id == 1);
    EXPECT_EQ(out.id, id);
    EXPECT_NEAR(out.logprob, (id == 0 ? 2.5 : 1.0) - std::log(sum), 1e-9);
    ASSERT_EQ(out.top.size(), 2u);
    EXPECT_EQ(out.top[0].id, 0);
    EXPECT_EQ(out.top[1].id, 1);
    EXPECT_NEAR(std::exp(out.top[0].logprob) + std::exp(out.top[1].logprob), 1, 1e-9);
    EXPECT_TRUE(sampler.drawn_logprobs(id, 0).top.empty());
    EXPECT_EQ(sampler.drawn_logprobs(id, 1).top.size(), 1u);
  }
  Sampler greedy = *Sampler::create({.temperature = 0});
  const TokenLogprobs only = greedy.drawn_logprobs(*greedy.sample(logits), 3);
  EXPECT_EQ(only.id, 1);
  EXPECT_EQ(only.logprob, 0);
  EXPECT_EQ(only.top.size(), 1u);
}

}  // namespace
}  // namespace ibid
