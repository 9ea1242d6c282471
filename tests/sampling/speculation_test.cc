// Tests whether and how much is drafted: the hit rates of DraftPolicy, and the drafts made from them.
#include "sampling/speculation.h"

#include <gtest/gtest.h>

#include <string>

namespace ibid {
namespace {

constexpr size_t kMinMatch = SuffixIndex::kMinMatch;

void record(DraftPolicy& policy, size_t match_length, bool hit, int n) {
  for (int i = 0; i < n; ++i) policy.record(match_length, hit);
}

TEST(DraftPolicyTest, NothingIsDraftedWithoutAMatch) { EXPECT_EQ(DraftPolicy().n_drafts(0, 7), 0u); }

TEST(DraftPolicyTest, LongMatchesDraftMoreThanShortMatches) {
  const DraftPolicy policy;
  EXPECT_GE(policy.n_drafts(kMinMatch, 7), 1u);
  EXPECT_LE(policy.n_drafts(kMinMatch, 7), 2u);
  EXPECT_GT(policy.n_drafts(32, 7), policy.n_drafts(kMinMatch, 7));
}

TEST(DraftPolicyTest, MissesStopDraftingAndLaterHitsResumeDrafting) {
  DraftPolicy policy;
  record(policy, kMinMatch, false, 2);
  EXPECT_EQ(policy.n_drafts(kMinMatch, 7), 0u);
  const double low = policy.hit_rate(kMinMatch);
  record(policy, kMinMatch, false, 20);
  EXPECT_LT(policy.hit_rate(kMinMatch), low);
  int n_hits = 0;
  while (policy.n_drafts(kMinMatch, 7) == 0) {
    policy.record(kMinMatch, true);
    ASSERT_LT(++n_hits, 12);
  }
  EXPECT_GE(n_hits, 3) << "one hit is not enough after twenty misses";
}

TEST(DraftPolicyTest, DraftGrowsWithHitsUpToTheMaximum) {
  DraftPolicy policy;
  size_t before = 0;
  for (int i = 0; i < 60; ++i) {
    for (size_t length = kMinMatch; length <= 40; ++length) policy.record(length, true);
    const size_t n = policy.n_drafts(kMinMatch, 100);
    EXPECT_GE(n, before);
    before = n;
  }
  EXPECT_EQ(before, DraftPolicy::kMaxDraft);
  EXPECT_EQ(policy.n_drafts(kMinMatch, 4), 4u);
  EXPECT_EQ(policy.n_drafts(kMinMatch, 0), 0u);
}

// In a text with one hit in twelve predictions, drafting adds hardly any row.
TEST(DraftPolicyTest, LowHitRateStopsAlmostAllDrafts) {
  DraftPolicy policy;
  size_t n_drafted = 0;
  for (int i = 0; i < 1200; ++i) {
    n_drafted += policy.n_drafts(kMinMatch, 7);
    policy.record(kMinMatch, i % 12 == 11);
  }
  EXPECT_LE(n_drafted, 12u);
}

Tokens tokens_of(const std::string& text) { return Tokens(text.begin(), text.end()); }

std::string proposed(const Drafter& drafter, size_t n_most, const std::vector<TokenId>& stop_ids = {}) {
  Tokens draft;
  drafter.propose(n_most, stop_ids, draft);
  return {draft.begin(), draft.end()};
}

void push(Drafter& drafter, const std::string& text) {
  for (const char id : text) drafter.push(id);
}

TEST(DrafterTest, CopiedTextIsDrafted) {
  Drafter drafter;
  drafter.append(tokens_of("the quick brown fox jumps over it; "));
  push(drafter, "the quick brown");
  const std::string draft = proposed(drafter, 7);
  EXPECT_GE(draft.size(), 4u);
  EXPECT_EQ(draft, std::string(" fox jumps").substr(0, draft.size()));
  EXPECT_EQ(proposed(drafter, 2), " f");
  EXPECT_EQ(proposed(drafter, 7, {'x', 'j'}), " fo");
  EXPECT_EQ(proposed(drafter, 7, {' '}), "");
  push(drafter, " fox jumps over it");
  EXPECT_EQ(proposed(drafter, 7), "; the q") << "from the text into its copy";
}

TEST(DrafterTest, MatchThatLiesOnlyInThePromptIsNotDrafted) {
  Drafter drafter;
  drafter.append(tokens_of("<assistant>yes<user>x<assistant>"));
  EXPECT_EQ(proposed(drafter, 7), "") << "the template writes the same before every answer";
  push(drafter, "ye");
  EXPECT_EQ(proposed(drafter, 7), "") << "two tokens of the answer";
  push(drafter, "s");
  EXPECT_NE(proposed(drafter, 7), "");
}

TEST(DrafterTest, HitRateIsUpdatedWhileNothingIsDrafted) {
  Drafter drafter;
  drafter.append(tokens_of("abc1abc2abc3abc4abc5abc6abc7 "));
  push(drafter, "abcXabcYabcZabc");
  EXPECT_EQ(proposed(drafter, 7), "") << "three misses";
  push(drafter, "Z");
  EXPECT_GT(drafter.policy().hit_rate(kMinMatch + 1), DraftPolicy().hit_rate(kMinMatch + 1) - 0.5);
}

TEST(DrafterTest, TruncatedTokensAreNotDrafted) {
  Drafter drafter;
  drafter.append(tokens_of("one two three four "));
  push(drafter, "one two");
  ASSERT_EQ(proposed(drafter, 3), " th");
  drafter.truncate(0);
  drafter.append(tokens_of("one too many "));
  EXPECT_EQ(drafter.size(), 13u);
  push(drafter, "one t");
  EXPECT_EQ(proposed(drafter, 2), "oo");
}

}  // namespace
}  // namespace ibid
