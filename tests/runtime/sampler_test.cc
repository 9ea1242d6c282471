#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace ibid {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sampler make(const SamplerOptions& options) {
  Result<Sampler> sampler = Sampler::create(options);
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
  return *std::move(sampler);
}

SamplerOptions options(double temperature, size_t top_k, double top_p, double min_p, uint64_t seed = 1) {
  return {.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p, .seed = seed};
}

std::vector<float> random_logits(size_t n, uint64_t seed, bool coarse) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const float x = static_cast<float>(random_bits(seed, i) >> 40) * 0x1p-24f * 12.0f - 6.0f;
    out[i] = coarse ? std::round(x) : x;  // coarse: many equal logits
  }
  return out;
}

// The readable twin: sort, cut, renormalise, in doubles. Returns the probability of each id.
std::vector<double> naive_distribution(const std::vector<float>& logits, const SamplerOptions& o) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> p(logits.size());
  for (size_t i = 0; i < p.size(); ++i) p[i] = std::exp((logits[i] - logits[order[0]]) / o.temperature);
  if (o.top_k != 0 && o.top_k < order.size()) order.resize(o.top_k);
  double total = 0;
  for (const size_t id : order) total += p[id];
  if (o.top_p < 1) {
    double sum = 0;
    size_t n = 0;
    while (n < order.size() && sum < o.top_p * total * (1 - 1e-11)) sum += p[order[n++]];
    order.resize(std::max<size_t>(n, 1));
  }
  std::erase_if(order, [&](size_t id) { return p[id] < o.min_p; });
  total = 0;
  for (const size_t id : order) total += p[id];
  std::vector<double> out(logits.size(), 0.0);
  for (const size_t id : order) out[id] = p[id] / total;
  return out;
}

TEST(SamplerTest, GreedyTakesTheLowestOfTheLargest) {
  const std::vector<float> logits = {1, 3, -2, 3, 3};
  Sampler sampler = make({.temperature = 0});
  EXPECT_EQ(*sampler.sample(logits), 1);
  EXPECT_EQ(sampler.n_draws(), 0u);
}

TEST(SamplerTest, TheSameSeedGivesTheSameIdsAndACopyReplays) {
  const std::vector<float> logits = random_logits(1000, 7, false);
  Sampler a = make(options(1, 0, 1, 0, 42));
  Sampler b = make(options(1, 0, 1, 0, 42));
  Sampler other = make(options(1, 0, 1, 0, 43));
  std::vector<TokenId> ids_a, ids_b, ids_other;
  for (int i = 0; i < 50; ++i) ids_a.push_back(*a.sample(logits));
  for (int i = 0; i < 50; ++i) ids_b.push_back(*b.sample(logits));
  for (int i = 0; i < 50; ++i) ids_other.push_back(*other.sample(logits));
  EXPECT_EQ(ids_a, ids_b);
  EXPECT_NE(ids_a, ids_other);

  Sampler copy = a;
  const TokenId next = *a.sample(logits);
  EXPECT_EQ(*copy.sample(logits), next);
  EXPECT_EQ(copy.n_draws(), 51u);
}

// Golden: these ids must not change with compiler, machine or release.
TEST(SamplerTest, IsTheSameEverywhere) {
  EXPECT_EQ(random_bits(0, 0), 0xE220A8397B1DCDAFu);  // SplitMix64's published first outputs for seed 0
  EXPECT_EQ(random_bits(0, 1), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(random_bits(0, 2), 0x06C45D188009454Fu);
}

TEST(SamplerTest, WithoutASeedOneIsChosenAndReported) {
  Sampler a = make({.temperature = 1.0});
  Sampler b = make({.temperature = 1.0});
  EXPECT_NE(a.seed(), b.seed());
  const std::vector<float> logits = random_logits(500, 3, false);
  Sampler again = make({.temperature = 1.0, .seed = a.seed()});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*a.sample(logits), *again.sample(logits));
}

// Every id that may be drawn is drawn, no other is, and as often as the twin says.
void expect_distribution(const std::vector<float>& logits, SamplerOptions o) {
  const std::vector<double> expected = naive_distribution(logits, o);
  Sampler sampler = make(o);
  constexpr int kDraws = 4000;
  std::vector<double> drawn(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) drawn[static_cast<size_t>(*sampler.sample(logits))] += 1.0 / kDraws;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (expected[id] == 0) {
      EXPECT_EQ(drawn[id], 0) << "id " << id << " was cut";
    } else {
      const double sigma = std::sqrt(expected[id] * (1 - expected[id]) / kDraws);
      EXPECT_NEAR(drawn[id], expected[id], 5 * sigma + 1e-4) << "id " << id;
      if (expected[id] * kDraws > 40) {
        EXPECT_GT(drawn[id], 0) << "id " << id;
      }
    }
  }
}

TEST(SamplerTest, AgreesWithTheNaiveTwin) {
  for (const bool coarse : {false, true}) {
    const std::vector<float> logits = random_logits(60, 11, coarse);
    SCOPED_TRACE(coarse);
    expect_distribution(logits, options(1, 0, 1, 0));
    expect_distribution(logits, options(0.5, 0, 1, 0));
    expect_distribution(logits, options(3, 0, 1, 0));
    for (const size_t k : {1u, 2u, 7u, 59u, 60u, 1000u}) expect_distribution(logits, options(2, k, 1, 0));
    for (const double p : {0.01, 0.3, 0.9, 0.999}) expect_distribution(logits, options(2, 0, p, 0));
    for (const double p : {0.01, 0.3, 1.0}) expect_distribution(logits, options(2, 0, 1, p));
    expect_distribution(logits, options(1.5, 20, 0.8, 0.1));
  }
}

// The set that survives, exactly, over many random cases: the boundary is where mistakes live.
TEST(SamplerTest, CutsExactlyWhereTheTwinCuts) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const size_t n = 1 + random_bits(seed, 100) % 40;
    const std::vector<float> logits = random_logits(n, seed, seed % 2 == 0);
    SamplerOptions o = options(0.5 + static_cast<double>(seed % 5), random_bits(seed, 101) % (n + 2), 1, 0, seed);
    if (seed % 3 == 0) o.top_p = 0.05 + 0.9 * static_cast<double>(random_bits(seed, 102) >> 11) * 0x1p-53;
    if (seed % 5 == 0) o.min_p = 0.2;
    const std::vector<double> expected = naive_distribution(logits, o);
    std::set<TokenId> allowed, seen;
    for (size_t id = 0; id < n; ++id) {
      if (expected[id] > 0.005) allowed.insert(static_cast<TokenId>(id));
    }
    Sampler sampler = make(o);
    for (int i = 0; i < 2500; ++i) {
      const TokenId id = *sampler.sample(logits);
      EXPECT_GT(expected[static_cast<size_t>(id)], 0) << "seed " << seed;
      if (expected[static_cast<size_t>(id)] > 0.005) seen.insert(id);
    }
    EXPECT_EQ(seen, allowed) << "seed " << seed;
  }
}

TEST(SamplerTest, AmongEqualsTopKKeepsTheLowestIds) {
  const std::vector<float> logits(10, 0.5f);
  Sampler sampler = make(options(1, 3, 1, 0));
  std::set<TokenId> seen;
  for (int i = 0; i < 500; ++i) seen.insert(*sampler.sample(logits));
  EXPECT_EQ(seen, (std::set<TokenId>{0, 1, 2}));
}

TEST(SamplerTest, ZeroesOfBothSignsAreEqual) {
  const std::vector<float> logits = {-0.0f, 0.0f, -0.0f};
  Sampler sampler = make(options(1, 2, 1, 0));
  std::set<TokenId> seen;
  for (int i = 0; i < 200; ++i) seen.insert(*sampler.sample(logits));
  EXPECT_EQ(seen, (std::set<TokenId>{0, 1}));
}

TEST(SamplerTest, IsTotalWhereProbabilitiesUnderflow) {
  const std::vector<float> far = {-3e38f, 0.0f, 3e38f, -kInf};
  for (const double temperature : {1e-300, 1e-3, 1.0, 100.0}) {
    Sampler sampler = make(options(temperature, 0, 1, 0));
    EXPECT_EQ(*sampler.sample(far), 2) << temperature;
  }
  const std::vector<float> only = {-kInf, -1e30f, -kInf};
  Sampler sampler = make(options(1, 0, 0.5, 0));
  EXPECT_EQ(*sampler.sample(only), 1);
}

TEST(SamplerTest, RefusesLogitsThatAreNotNumbers) {
  Sampler sampler = make(options(1, 0, 1, 0));
  Sampler greedy = make({.temperature = 0});
  for (const std::vector<float>& logits :
       {std::vector<float>{1, kNan, 2}, {kNan}, {1, kInf}, {-kInf, -kInf}, std::vector<float>{}}) {
    EXPECT_EQ(sampler.sample(logits).status().code(), ErrorCode::kNonFinite);
    EXPECT_EQ(greedy.sample(logits).status().code(), ErrorCode::kNonFinite);
  }
  EXPECT_EQ(sampler.n_draws(), 0u) << "a refused draw is no draw";
}

TEST(SamplerTest, RefusesParametersOutOfRangeByName) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const auto message = [](SamplerOptions o) {
    const Result<Sampler> sampler = Sampler::create(o);
    EXPECT_EQ(sampler.status().code(), ErrorCode::kInvalidArgument);
    return sampler.status().message();
  };
  for (const double bad : {nan, inf, -inf, -0.1, 100.5}) {
    EXPECT_NE(message(options(bad, 0, 1, 0)).find("temperature"), std::string::npos) << bad;
  }
  for (const double bad : {nan, inf, 0.0, -0.5, 1.01}) {
    EXPECT_NE(message(options(1, 0, bad, 0)).find("top_p"), std::string::npos) << bad;
  }
  for (const double bad : {nan, inf, -0.01, 1.01}) {
    EXPECT_NE(message(options(1, 0, 1, bad)).find("min_p"), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace ibid
