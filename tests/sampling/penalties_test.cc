// Compares penalties with formulas evaluated over the whole history, and tests the history that penalties use.
#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace ibid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Story {
  Tokens prompt;
  Tokens answer;
  Tokens all() const {
    Tokens ids = prompt;
    ids.insert(ids.end(), answer.begin(), answer.end());
    return ids;
  }
};

std::vector<float> applied(const SamplerOptions& o, const TokenHistory& history, std::vector<float> row) {
  std::vector<RepeatIndex::Repeat> repeats;
  apply_penalties(o, history, repeats, row);
  return row;
}

// Makes the history keep what a sampler with these options keeps.
void keep_for(const SamplerOptions& o, TokenHistory& history) {
  history.keep(o.repetition_penalty == 1 ? 0 : o.repetition_window.value_or(TokenHistory::kEverything),
               o.dry_multiplier != 0);
}

std::vector<float> applied(const SamplerOptions& o, const Story& story, const std::vector<float>& row) {
  TokenHistory history;
  keep_for(o, history);
  history.append(story.prompt);
  history.begin_answer();
  for (const TokenId id : story.answer) history.push(id);
  return applied(o, history, row);
}

// DRY as its authors wrote it: takes every earlier occurrence of the last token and extends it backwards.
double naive_dry(const SamplerOptions& o, const Tokens& all, TokenId id) {
  const size_t window = o.dry_window.value_or(all.size());
  const Tokens ids(all.end() - static_cast<std::ptrdiff_t>(std::min(window, all.size())), all.end());
  const std::set<TokenId> breakers(o.dry_breakers.begin(), o.dry_breakers.end());
  size_t longest = 0;
  if (ids.empty() || breakers.contains(ids.back()) || breakers.contains(id)) return 0;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    if (ids[i] != ids.back() || ids[i + 1] != id) continue;
    size_t length = 1;
    while (length < 50 && length <= i && ids[i - length] == ids[ids.size() - 1 - length] &&
           !breakers.contains(ids[i - length])) {
      ++length;
    }
    longest = std::max(longest, length);
  }
  if (longest < o.dry_allowed_length) return 0;
  return o.dry_multiplier * std::pow(o.dry_base, static_cast<double>(longest - o.dry_allowed_length));
}

double naive(const SamplerOptions& o, const Story& story, double x, TokenId id) {
  const Tokens all = story.all();
  if (const auto bias = o.logit_bias.find(id); bias != o.logit_bias.end()) x += bias->second;
  const auto window = static_cast<std::ptrdiff_t>(std::min(o.repetition_window.value_or(all.size()), all.size()));
  if (std::count(all.end() - window, all.end(), id) > 0) {
    x = x > 0 ? x / o.repetition_penalty : x * o.repetition_penalty;
  }
  const auto count = std::count(story.answer.begin(), story.answer.end(), id);
  x -= static_cast<double>(count) * o.frequency_penalty + (count > 0 ? o.presence_penalty : 0);
  if (o.dry_multiplier != 0) x -= naive_dry(o, all, id);
  return x;
}

void expect_agrees(const SamplerOptions& o, const Story& story, const std::vector<float>& row) {
  const std::vector<float> out = applied(o, story, row);
  for (size_t i = 0; i < row.size(); ++i) {
    const double wanted = naive(o, story, row[i], static_cast<TokenId>(i));
    if (wanted == -kInfinity) {
      ASSERT_EQ(out[i], -kInfinity) << "id " << i;
    } else {
      ASSERT_NEAR(out[i], wanted, std::abs(wanted) * 1e-6 + 2e-5) << "id " << i;
    }
  }
}

SamplerOptions random_options(std::mt19937& random, size_t vocab) {
  const auto often = [&] { return random() % 2 == 0; };
  const auto share = [&] { return static_cast<double>(random() % 1000) / 1000; };
  SamplerOptions o;
  if (often()) o.repetition_penalty = 0.5 + share();
  if (often()) o.repetition_window = random() % 50;
  if (often()) o.frequency_penalty = 2 - 4 * share();
  if (often()) o.presence_penalty = 2 - 4 * share();
  if (often()) {
    o.dry_multiplier = 2 * share();
    o.dry_base = 1 + share() / 2;
    o.dry_allowed_length = 1 + random() % 4;
    if (often()) o.dry_window = random() % 60;
    for (TokenId id = 0; often() && id < 2; ++id) o.dry_breakers.push_back(id);
  }
  while (often()) {
    o.logit_bias[static_cast<TokenId>(random() % vocab)] = random() % 4 == 0 ? -kInfinity : 200 * share() - 100;
  }
  return o;
}

TEST(PenaltiesTest, PenaltiesAgreeWithTheirFormulas) {
  std::mt19937 random(1);
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    const size_t vocab = 2 + random() % 12;
    const SamplerOptions o = random_options(random, vocab);
    ASSERT_TRUE(check_sampler_options(o, vocab).ok());
    Story story;
    for (size_t n = random() % 60; n > 0; --n) story.prompt.push_back(static_cast<TokenId>(random() % vocab));
    for (size_t n = random() % 60; n > 0; --n) story.answer.push_back(static_cast<TokenId>(random() % vocab));
    std::vector<float> row(vocab);
    for (float& x : row) x = static_cast<float>(random() % 2000) / 100.0f - 10;
    expect_agrees(o, story, row);
    if (HasFatalFailure()) return;
  }
}

TEST(PenaltiesTest, PenaltiesMatchValuesComputedByHand) {
  const Story story{{5, 6, 7}, {1, 1, 2}};
  const std::vector<float> row = {2, 2, -2, 2, 2, 2, -2, 2};
  SamplerOptions o;
  EXPECT_EQ(applied(o, story, row), row) << "off by default";
  o.repetition_penalty = 2;
  EXPECT_EQ(applied(o, story, row), (std::vector<float>{2, 1, -4, 2, 2, 1, -4, 1})) << "the prompt counts";
  o.repetition_window = 2;
  EXPECT_EQ(applied(o, story, row), (std::vector<float>{2, 1, -4, 2, 2, 2, -2, 2}));
  o = {.frequency_penalty = 0.5, .presence_penalty = 0.25};
  EXPECT_EQ(applied(o, story, row), (std::vector<float>{2, 0.75, -2.75, 2, 2, 2, -2, 2})) << "the answer alone";
  o = {.repetition_penalty = 2, .frequency_penalty = 0.5, .logit_bias = {{1, 4}, {3, -kInfinity}}};
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(applied(o, story, row), (std::vector<float>{2, 2, -4.5, kForbidden, 2, 1, -4, 1}))
      << "(2 + 4) / 2 - 2 * 0.5";
}

TEST(PenaltiesTest, DryPenaltyMatchesValuesComputedByHand) {
  // Token 4 followed "1 2 3", and token 5 followed "2 3".
  const Story story{{1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3}, {}};
  const std::vector<float> row(10, 0.0f);
  SamplerOptions o{.dry_multiplier = 1, .dry_base = 2};
  std::vector<float> wanted = row;
  wanted[4] = -2, wanted[5] = -1;
  EXPECT_EQ(applied(o, story, row), wanted);
  o.dry_allowed_length = 3;
  wanted[4] = -1, wanted[5] = 0;
  EXPECT_EQ(applied(o, story, row), wanted);
  o.dry_allowed_length = 2;
  o.dry_breakers = {1};
  wanted[4] = -1, wanted[5] = -1;
  EXPECT_EQ(applied(o, story, row), wanted) << "no match reaches across a breaker";
  o.dry_breakers = {3};
  EXPECT_EQ(applied(o, story, row), row) << "at the end";
  o.dry_breakers = {4};
  wanted[4] = 0, wanted[5] = -1;
  EXPECT_EQ(applied(o, story, row), wanted) << "a breaker is not penalised";
  o.dry_breakers = {};
  o.dry_window = 6;
  EXPECT_EQ(applied(o, story, row), wanted) << "2 3 5 1 2 3";
  o.dry_window = 5;
  EXPECT_EQ(applied(o, story, row), row) << "3 5 1 2 3";
}

TEST(PenaltiesTest, LogitBiasesCanForbidTokensButPenaltiesCannot) {
  Story story;
  for (int i = 0; i < 200; ++i) story.answer.push_back(i % 2);
  constexpr float kMost = std::numeric_limits<float>::max();
  SamplerOptions o{.repetition_penalty = 100,
                   .frequency_penalty = 2,
                   .presence_penalty = 2,
                   .dry_multiplier = 1000,
                   .dry_base = 100};
  const std::vector<float> row = {-kMost, kMost, -std::numeric_limits<float>::infinity(), 1};
  const std::vector<float> out = applied(o, story, row);
  EXPECT_EQ(out[0], -kMost);
  EXPECT_TRUE(std::isfinite(out[1]));
  EXPECT_EQ(out[2], row[2]);
  o.repetition_penalty = 1e-3;
  EXPECT_TRUE(std::isfinite(applied({.repetition_penalty = 1e-3}, story, row)[1]));
}

// A history that was truncated, extended, reconfigured and copied must equal one that was built at once.
TEST(TokenHistoryTest, EditedHistoryEqualsAHistoryBuiltAtOnce) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    TokenHistory history;
    size_t window = 0;
    bool repeats = false;
    Tokens ids;
    size_t answer_begin = 0;
    for (int step = 0; step < 60; ++step) {
      Tokens some(random() % 12);
      for (TokenId& id : some) id = static_cast<TokenId>(random() % 4);
      switch (random() % 5) {
        case 0:
          window = std::array<size_t, 4>{0, 5, 17, TokenHistory::kEverything}[random() % 4];
          repeats = random() % 2 == 0;
          history.keep(window, repeats);
          break;
        case 1:
          history.append(some);
          ids.insert(ids.end(), some.begin(), some.end());
          history.begin_answer();
          answer_begin = ids.size();
          break;
        case 2: {
          const size_t n = random() % (ids.size() + 1);
          history.truncate(n);
          ids.resize(n);
          answer_begin = std::min(answer_begin, n);
          break;
        }
        case 3: history = TokenHistory(history); break;
        default:
          for (const TokenId id : some) history.push(id), ids.push_back(id);
      }
      TokenHistory::Counts recent, answer;
      const size_t begin = ids.size() - std::min(window, ids.size());
      for (size_t i = begin; i < ids.size(); ++i) ++recent[ids[i]];
      for (size_t i = answer_begin; i < ids.size(); ++i) ++answer[ids[i]];
      ASSERT_EQ(Tokens(history.ids().begin(), history.ids().end()), ids);
      ASSERT_EQ(history.recent(), recent);
      ASSERT_EQ(history.answer(), answer);
      ASSERT_EQ(history.repeats().size(), repeats ? ids.size() : 0);
    }
  }
}

TEST(TokenHistoryTest, PushCostDoesNotGrowWithLength) {
  std::mt19937 random(3);
  TokenHistory history;
  history.keep(100, true);
  for (int thousand = 0; thousand < 30; ++thousand) {
    const size_t before = history.n_steps();
    for (int i = 0; i < 1000; ++i) history.push(static_cast<TokenId>(random() % 500));
    EXPECT_LT(history.n_steps() - before, 20'000u) << thousand;
  }
  const size_t before = history.n_steps();
  history.keep(100, true);
  EXPECT_EQ(history.n_steps(), before) << "keeping the same again costs nothing";
  history.truncate(29'000);
  EXPECT_LT(history.n_steps() - before, 20'000u);
}

}  // namespace
}  // namespace ibid
