#include "sampling/sampler.h"

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
    out[i] = coarse ? std::round(x) : x;  // if `coarse`, many logits are equal
  }
  return out;
}

// The reference sampler in doubles: sorts, cuts, renormalises. Returns the probability of each token.
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
  const auto sum_of = [&](const std::vector<size_t>& ids) {
    double sum = 0;
    for (const size_t id : ids) sum += p[id];
    return sum;
  };
  if (o.typical_p < 1) {
    total = sum_of(order);
    double entropy = 0;
    for (const size_t id : order) entropy -= p[id] / total * std::log(p[id] / total);
    std::sort(order.begin(), order.end());
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto distance = [&](size_t id) { return std::abs(-std::log(p[id] / total) - entropy); };
      return distance(a) < distance(b) - 1e-12;
    });
    double sum = 0;
    size_t n = 0;
    while (n < order.size() && sum < o.typical_p * total * (1 - 1e-11)) sum += p[order[n++]];
    order.resize(n);
  }
  std::vector<size_t> excluded = order;
  if (o.xtc_probability > 0) {
    std::vector<size_t> top;
    for (const size_t id : order) {
      if (p[id] >= o.xtc_threshold * sum_of(order)) top.push_back(id);
    }
    std::sort(top.begin(), top.end(), [&](size_t a, size_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; });
    if (!top.empty()) top.pop_back();
    std::erase_if(excluded, [&](size_t id) { return std::find(top.begin(), top.end(), id) != top.end(); });
  }
  std::vector<double> out(logits.size(), 0.0);
  for (const size_t id : order) out[id] += (1 - o.xtc_probability) * p[id] / sum_of(order);
  for (const size_t id : excluded) out[id] += o.xtc_probability * p[id] / sum_of(excluded);
  return out;
}

TEST(SamplerTest, GreedySamplingTakesTheLowestIdOfEqualLargestLogits) {
  const std::vector<float> logits = {1, 3, -2, 3, 3};
  Sampler sampler = make({.temperature = 0});
  EXPECT_EQ(*sampler.sample(logits), 1);
  EXPECT_EQ(sampler.n_draws(), 0u);
}

TEST(SamplerTest, EqualSeedsAndCopiesSampleTheSameTokens) {
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

// These values must not change with the compiler, the machine or the release.
TEST(SamplerTest, RandomBitsMatchSplitMix64) {
  EXPECT_EQ(random_bits(0, 0), 0xE220A8397B1DCDAFu);  // SplitMix64's published first outputs for seed 0
  EXPECT_EQ(random_bits(0, 1), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(random_bits(0, 2), 0x06C45D188009454Fu);
}

TEST(SamplerTest, TokensOfASeedMatchGoldens) {
  struct Golden {
    SamplerOptions options;
    std::vector<TokenId> ids;
  };
  const std::vector<Golden> goldens = {
      {{.seed = 5}, {141, 301, 87, 36, 64, 208, 378, 204, 175, 242, 186, 49}},
      {{.temperature = 1, .min_p = 0, .seed = 6}, {294, 176, 18, 36, 191, 344, 97, 96, 65, 366, 46, 193}},
      {{.temperature = 1.3, .top_k = 20, .top_p = 0.9, .min_p = 0.01, .seed = 7},
       {141, 23, 332, 191, 150, 208, 241, 111, 116, 174, 40, 385}},
      {{.temperature = 0}, {44, 198, 176, 19, 219, 310, 46, 240, 175, 21, 40, 205}}};
  for (const auto& [golden_options, ids] : goldens) {
    Sampler sampler = make(golden_options);
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(*sampler.sample(random_logits(400, 100 + i, i % 3 == 0)), ids[i]) << i;
      sampler.push(ids[i]);
    }
    EXPECT_EQ(sampler.history().size(), 0u) << "no option needs the history";
  }
}

TEST(SamplerTest, MissingSeedIsChosenAndReported) {
  Sampler a = make({.temperature = 1.0});
  Sampler b = make({.temperature = 1.0});
  EXPECT_NE(a.seed(), b.seed());
  const std::vector<float> logits = random_logits(500, 3, false);
  Sampler again = make({.temperature = 1.0, .seed = a.seed()});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*a.sample(logits), *again.sample(logits));
}

// Expects that every possible token is drawn with the reference's frequency, and no other token.
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

TEST(SamplerTest, DistributionMatchesReference) {
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
    SamplerOptions o = options(2, 0, 1, 0);
    for (const double x : {0.05, 0.5, 0.95}) o.typical_p = x, expect_distribution(logits, o);
    o.typical_p = 1;
    for (const double probability : {0.3, 1.0}) {
      o.xtc_probability = probability;
      for (const double x : {0.0, 0.02, 0.1, 0.6}) o.xtc_threshold = x, expect_distribution(logits, o);
    }
    o = options(1.5, 30, 0.95, 0.02);
    o.typical_p = 0.8, o.xtc_probability = 0.5, o.xtc_threshold = 0.05;
    expect_distribution(logits, o);
  }
}

// Compares the exact set of remaining tokens in many random cases, because errors are likeliest at its boundary.
TEST(SamplerTest, SetOfTokensLeftByTheFiltersMatchesReference) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const size_t n = 1 + random_bits(seed, 100) % 40;
    const std::vector<float> logits = random_logits(n, seed, seed % 2 == 0);
    SamplerOptions o = options(0.5 + static_cast<double>(seed % 5), random_bits(seed, 101) % (n + 2), 1, 0, seed);
    if (seed % 3 == 0) o.top_p = 0.05 + 0.9 * static_cast<double>(random_bits(seed, 102) >> 11) * 0x1p-53;
    if (seed % 5 == 0) o.min_p = 0.2;
    if (seed % 4 == 1) o.typical_p = 0.05 + 0.9 * static_cast<double>(random_bits(seed, 103) >> 11) * 0x1p-53;
    if (seed % 7 == 2) o.xtc_probability = 1, o.xtc_threshold = 0.1;
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

TEST(SamplerTest, TopKKeepsTheLowestIdsOfEqualLogits) {
  const std::vector<float> logits(10, 0.5f);
  Sampler sampler = make(options(1, 3, 1, 0));
  std::set<TokenId> seen;
  for (int i = 0; i < 500; ++i) seen.insert(*sampler.sample(logits));
  EXPECT_EQ(seen, (std::set<TokenId>{0, 1, 2}));
}

TEST(SamplerTest, PositiveAndNegativeZeroAreEqualLogits) {
  const std::vector<float> logits = {-0.0f, 0.0f, -0.0f};
  Sampler sampler = make(options(1, 2, 1, 0));
  std::set<TokenId> seen;
  for (int i = 0; i < 200; ++i) seen.insert(*sampler.sample(logits));
  EXPECT_EQ(seen, (std::set<TokenId>{0, 1}));
}

TEST(SamplerTest, SamplingWorksEvenIfProbabilitiesUnderflow) {
  const std::vector<float> far = {-3e38f, 0.0f, 3e38f, -kInf};
  for (const double temperature : {1e-300, 1e-3, 1.0, 100.0}) {
    Sampler sampler = make(options(temperature, 0, 1, 0));
    EXPECT_EQ(*sampler.sample(far), 2) << temperature;
  }
  const std::vector<float> only = {-kInf, -1e30f, -kInf};
  Sampler sampler = make(options(1, 0, 0.5, 0));
  EXPECT_EQ(*sampler.sample(only), 1);
}

TEST(SamplerTest, RejectsNonFiniteLogits) {
  Sampler sampler = make(options(1, 0, 1, 0));
  Sampler greedy = make({.temperature = 0});
  for (const std::vector<float>& logits :
       {std::vector<float>{1, kNan, 2}, {kNan}, {1, kInf}, {-kInf, -kInf}, std::vector<float>{}}) {
    EXPECT_EQ(sampler.sample(logits).status().code(), ErrorCode::kNonFinite);
    EXPECT_EQ(greedy.sample(logits).status().code(), ErrorCode::kNonFinite);
  }
  EXPECT_EQ(sampler.n_draws(), 0u) << "an error draws no random number";
}

SamplerOptions everything(uint64_t seed) {
  return {.temperature = 1.2,
          .top_k = 40,
          .top_p = 0.95,
          .min_p = 0.01,
          .seed = seed,
          .typical_p = 0.95,
          .xtc_probability = 0.5,
          .xtc_threshold = 0.15,
          .repetition_penalty = 1.2,
          .repetition_window = 30,
          .frequency_penalty = 0.3,
          .presence_penalty = 0.2,
          .dry_multiplier = 0.8,
          .dry_breakers = {9, 3},
          .logit_bias = {{1, 2.0}, {2, -3}}};
}

TEST(SamplerTest, CopyOfASamplerWithHistorySamplesTheSameTokens) {
  TokenHistory prompt;
  prompt.append(Tokens{1, 2, 3, 1, 2, 3, 1});
  Sampler sampler = make(everything(4));
  sampler.begin_answer(prompt);
  std::vector<Sampler> before;
  std::vector<TokenId> ids;
  for (size_t i = 0; i < 60; ++i) {
    before.push_back(sampler);
    ids.push_back(*sampler.sample(random_logits(30, i % 7, false)));
    sampler.push(ids.back());
  }
  EXPECT_EQ(sampler.n_draws(), 120u) << "one for XTC, one for the token";
  EXPECT_EQ(sampler.history().size(), 67u);
  for (const size_t begin : {0u, 17u, 59u}) {
    for (size_t i = begin; i < 60; ++i) {
      EXPECT_EQ(*before[begin].sample(random_logits(30, i % 7, false)), ids[i]) << begin << " " << i;
      before[begin].push(ids[i]);
    }
  }
}

// Bias, penalty and cut affect one token, and the cut must be the last of them.
TEST(SamplerTest, TopKAppliesAfterBiasesAndPenalties) {
  const std::vector<float> logits = {5, 4, 3.5, 3};
  SamplerOptions o = options(1, 1, 1, 0);
  EXPECT_EQ(*make(o).sample(logits), 0);
  o.logit_bias = {{0, -std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(*make(o).sample(logits), 1);
  o.presence_penalty = 1;
  Sampler sampler = make(o);
  sampler.push(1);
  EXPECT_EQ(*sampler.sample(logits), 2);
  o.temperature = 0;
  Sampler greedy = make(o);
  greedy.push(1);
  EXPECT_EQ(*greedy.sample(logits), 2) << "greedy too";
  EXPECT_EQ(greedy.n_draws(), 0u);
}

TEST(SamplerTest, XtcKeepsTheLastOfEqualTopChoices) {
  const std::vector<float> logits = {0, 0, 0, -9};
  SamplerOptions o = options(1, 0, 1, 0.5);
  o.xtc_probability = 1;
  Sampler sampler = make(o);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(*sampler.sample(logits), 2);
}

TEST(SamplerTest, BiasesThatForbidAllTokensAreRejectedWithoutADraw) {
  const double never = -std::numeric_limits<double>::infinity();
  SamplerOptions o = options(1, 0, 1, 0);
  o.logit_bias = {{0, never}, {1, never}};
  Sampler sampler = make(o);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 2}).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 2, -kInf}).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(sampler.n_draws(), 0u);
  EXPECT_EQ(*sampler.sample(std::vector<float>{1, 2, -30}), 2);
}

TEST(SamplerTest, OutOfRangeErrorHasNameValueAndRange) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  struct Field {
    const char* name;
    double SamplerOptions::*value;
    std::vector<double> bad, good;
  };
  const std::vector<Field> fields = {
      {"typical_p", &SamplerOptions::typical_p, {0, -1, 1.5}, {1e-9, 1}},
      {"xtc_probability", &SamplerOptions::xtc_probability, {-0.1, 1.1}, {0, 1}},
      {"xtc_threshold", &SamplerOptions::xtc_threshold, {-0.1, 1.1}, {0, 1}},
      {"repetition_penalty", &SamplerOptions::repetition_penalty, {0, -1, 101}, {0.01, 100}},
      {"frequency_penalty", &SamplerOptions::frequency_penalty, {-2.1, 2.1}, {-2, 2}},
      {"presence_penalty", &SamplerOptions::presence_penalty, {-2.1, 2.1}, {-2, 2}},
      {"dry_multiplier", &SamplerOptions::dry_multiplier, {-1, 1001}, {0, 1000}},
      {"dry_base", &SamplerOptions::dry_base, {0.9, 101}, {1, 100}}};
  for (const Field& field : fields) {
    SamplerOptions o;
    for (const double good : field.good) {
      o.*field.value = good;
      EXPECT_TRUE(Sampler::create(o).ok()) << field.name << " " << good;
    }
    std::vector<double> bad = field.bad;
    bad.insert(bad.end(), {nan, inf, -inf, 1e300, -1e300});
    for (const double value : bad) {
      o.*field.value = value;
      const Status status = Sampler::create(o).status();
      EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << field.name << " " << value;
      EXPECT_EQ(status.message().find(field.name), 0u) << status.message();
      EXPECT_NE(status.message().find("allowed: "), std::string::npos);
    }
  }
  for (const size_t length : {size_t{0}, size_t{51}, SIZE_MAX}) {
    EXPECT_EQ(Sampler::create({.dry_allowed_length = length}).status().code(), ErrorCode::kInvalidArgument);
  }
  for (const double value : {nan, inf, 100.5, -100.5}) {
    EXPECT_NE(Sampler::create({.logit_bias = {{7, value}}}).status().message().find("token id 7"), std::string::npos);
  }
  for (const TokenId id : {-1, 10, INT32_MAX}) {
    EXPECT_EQ(Sampler::create({.logit_bias = {{id, 1}}}, 10).status().code(), ErrorCode::kInvalidArgument) << id;
    EXPECT_EQ(Sampler::create({.dry_breakers = {id}}, 10).status().code(), ErrorCode::kInvalidArgument) << id;
  }
  EXPECT_TRUE(Sampler::create({.dry_breakers = {9}, .logit_bias = {{9, -inf}, {0, 100}}}, 10).ok());
}

TEST(SamplerTest, OutOfRangeErrorHasParameterName) {
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
