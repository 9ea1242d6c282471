// The rules by which requests share a pass, and the cost estimate of a pass.
#include "runtime/scheduler/pass_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ibid {
namespace {

using testing::ElementsAre;

TEST(PassPlanTest, AllDecodingRequestsAreInThePass) {
  const std::vector<PassRequest> requests = {
      {1, Priority::kNormal, 1}, {8, Priority::kNormal, 2}, {3, Priority::kHigh, 3}};
  EXPECT_THAT(plan_pass(requests, {512, 16}), ElementsAre(1, 8, 3));
}

TEST(PassPlanTest, PrefillGetsTheTimeThatDecodingLeaves) {
  const std::vector<PassRequest> requests = {{4000, Priority::kNormal, 1}, {1, Priority::kNormal, 2}};
  EXPECT_THAT(plan_pass(requests, {512, 100}), ElementsAre(96, 1)) << "in multiples of 16";
  EXPECT_THAT(plan_pass(requests, {512, 0}), ElementsAre(16, 1)) << "a prompt is never left out";
  EXPECT_THAT(plan_pass(requests, {512, SIZE_MAX}), ElementsAre(496, 1));
}

TEST(PassPlanTest, LastRowsOfAPromptAreNotRoundedToAMultiple) {
  const std::vector<PassRequest> requests = {{99, Priority::kNormal, 1}};
  EXPECT_THAT(plan_pass(requests, {512, 512}), ElementsAre(99));
}

TEST(PassPlanTest, MaxChunkLimitsTheRowsOfAPass) {
  const std::vector<PassRequest> requests = {{5, Priority::kNormal, 1}};
  EXPECT_THAT(plan_pass(requests, {3, 512}), ElementsAre(3));
  EXPECT_THAT(plan_pass(requests, {1, 512}), ElementsAre(1));
}

TEST(PassPlanTest, OldestPromptGetsHalfOfTheRowsAndShortestTheRest) {
  const std::vector<PassRequest> requests = {
      {4000, Priority::kNormal, 1}, {900, Priority::kNormal, 2}, {40, Priority::kNormal, 3}};
  EXPECT_THAT(plan_pass(requests, {512, 128}), ElementsAre(64, 16, 40));
  EXPECT_THAT(plan_pass(requests, {512, 64}), ElementsAre(32, 0, 32));
}

TEST(PassPlanTest, HighPriorityGoesBeforeShortPromptsButNotBeforeTheOldest) {
  const std::vector<PassRequest> requests = {
      {4000, Priority::kNormal, 1}, {900, Priority::kHigh, 2}, {40, Priority::kNormal, 3}};
  EXPECT_THAT(plan_pass(requests, {512, 128}), ElementsAre(64, 64, 0));
}

TEST(PassPlanTest, LowPriorityRunsOnlyWithoutOtherRequests) {
  const std::vector<PassRequest> both = {{500, Priority::kLow, 1}, {1, Priority::kNormal, 2}};
  EXPECT_THAT(plan_pass(both, {512, 128}), ElementsAre(0, 1));
  const std::vector<PassRequest> alone = {{500, Priority::kLow, 1}};
  EXPECT_THAT(plan_pass(alone, {512, 128}), ElementsAre(128));
}

TEST(PassPlanTest, ScoredRowsArePlannedAsPrefillUnlessAnotherRequestDecodes) {
  const PassRequest scores{400, Priority::kNormal, 1, true}, short_text{5, Priority::kNormal, 2, true};
  const PassRequest prompt{4000, Priority::kNormal, 3}, token{1, Priority::kNormal, 4};
  EXPECT_THAT(plan_pass(std::vector{scores, short_text}, {512, 512}), ElementsAre(128, 0)) << "at most 128 in all";
  EXPECT_THAT(plan_pass(std::vector{short_text, scores}, {512, 512}), ElementsAre(0, 128)) << "the oldest first";
  EXPECT_THAT(plan_pass(std::vector{short_text, prompt}, {512, 512}), ElementsAre(5, 496));
  EXPECT_THAT(plan_pass(std::vector{scores, short_text, token}, {512, 512}), ElementsAre(0, 0, 1));
  EXPECT_THAT(plan_pass(std::vector{scores, short_text, token}, {512, 512, 20}), ElementsAre(20, 0, 1));
  EXPECT_THAT(plan_pass(std::vector{short_text, scores, token}, {512, 512, 20}), ElementsAre(0, 20, 1));
  EXPECT_THAT(plan_pass(std::vector{short_text, prompt, token}, {512, 64, 20}), ElementsAre(5, 64, 1));
}

TEST(ScoreShareTest, DecodingGetsFourTimesTheDurationOfScoredPieces) {
  ScoreShare share;
  EXPECT_EQ(share.rows(0), 0u) << "the duration of a decoding pass is unknown";
  EXPECT_EQ(share.rows(1000), 1u);
  share.record(1, false, 1010, 1000);
  EXPECT_EQ(share.rows(1000), 0u);
  share.record(0, false, 39, 1000);
  EXPECT_EQ(share.rows(1000), 0u);
  share.record(0, false, 1, 1000);
  EXPECT_EQ(share.rows(1000), 2u) << "twice as many at most";
  share.record(2, false, 2000, 1000);  // 500 a row
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(share.rows(1000), 0u) << i;
    share.record(0, false, 1000, 1000);
  }
  EXPECT_EQ(share.rows(1000), 3u) << "875 at (10 + 500) / 2 a row";
  share.record(4, true, 9000, 1000);
  for (int i = 0; i < 32; ++i) share.record(0, false, 1000, 1000);
  EXPECT_EQ(share.rows(1000), 3u) << "prefill rows do not show the cost of scored ones";
}

TEST(PassPlanTest, ManyDecodingRequestsLeaveRowsForAPrompt) {
  std::vector<PassRequest> requests(80, {8, Priority::kNormal, 0});
  for (size_t i = 0; i < requests.size(); ++i) requests[i].age = 1000 - i;  // age does not matter
  requests.push_back({700, Priority::kNormal, 5});
  const std::vector<size_t> rows = plan_pass(requests, {512, 512});
  for (size_t i = 0; i < 62; ++i) EXPECT_EQ(rows[i], 8u) << i;
  for (size_t i = 62; i < 80; ++i) EXPECT_EQ(rows[i], 0u) << i;
  EXPECT_EQ(rows[80], 16u);
}

// Random requests keep the promises of the header.
TEST(PassPlanTest, PlansForRandomRequestsFollowTheRules) {
  std::mt19937_64 rng(7);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<PassRequest> requests(1 + rng() % 12);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i] = {1 + rng() % (rng() % 2 == 0 ? 10 : 2000), static_cast<Priority>(rng() % 3), 100 - i,
                     rng() % 4 == 0};
    }
    const PassLimits limits{1 + rng() % 512, rng() % 600, rng() % 64};
    const std::vector<size_t> rows = plan_pass(requests, limits);
    ASSERT_EQ(rows.size(), requests.size());
    size_t total = 0, n_scored = 0;
    bool any_decodes = false;
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_LE(rows[i], requests[i].n_rows);
      const bool is_whole = rows[i] == 0 || rows[i] == requests[i].n_rows;
      ASSERT_TRUE(requests[i].gives_way || !limits.decodes(requests[i].n_rows) || is_whole);
      const bool decodes = !requests[i].gives_way && limits.decodes(requests[i].n_rows) && rows[i] > 0;
      any_decodes = any_decodes || decodes;
      n_scored += requests[i].gives_way ? rows[i] : 0;
      total += rows[i];
    }
    ASSERT_LE(n_scored, any_decodes ? limits.score_rows : kScoreRows);
    ASSERT_GT(total, 0u);
    ASSERT_LE(total, limits.max_rows);
  }
}

TEST(PassCostTest, UnknownCostDoesNotLimitRows) { EXPECT_EQ(PassCost().prefill_rows(3, 40), SIZE_MAX); }

TEST(PassCostTest, PrefillRowsFillTheTimeThatDecodingLeaves) {
  PassCost cost;
  cost.record(2, 0, 4'000);
  cost.record(0, 100, 10'000);  // 100 ns a row
  // Passes aim at 7/8 of the time.
  EXPECT_EQ(cost.prefill_rows(0, 40'000), 350u);
  EXPECT_EQ(cost.prefill_rows(2, 40'000), 310u);
  EXPECT_EQ(cost.prefill_rows(2, 3'000), 0u);
}

TEST(PassCostTest, EstimateFollowsGrowingCostOfRows) {
  PassCost cost;
  for (int i = 0; i < 8; ++i) cost.record(0, 64, 64 * 100);
  for (int i = 0; i < 8; ++i) cost.record(0, 64, 64 * 300);
  EXPECT_NEAR(static_cast<double>(cost.prefill_rows(0, 300'000)), 875.0, 10.0);
}

TEST(PassCostTest, SmallPassesAreNotRecorded) {
  PassCost cost;
  cost.record(0, 9, 1'000'000);
  EXPECT_EQ(cost.prefill_rows(0, 40), SIZE_MAX);
}

}  // namespace
}  // namespace ibid
