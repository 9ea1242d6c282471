#include "sampling/speculation.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <unordered_map>

namespace ibid {
namespace {

using Match = SuffixIndex::Match;

constexpr size_t kIndexMinMatch = SuffixIndex::kMinMatch;

// Returns the match by definition, found by exhaustive search.
Match find_naively(const Tokens& ids) {
  Match best;
  size_t n_candidates = 0;
  for (size_t next = ids.size(); next-- > kIndexMinMatch && n_candidates < SuffixIndex::kMaxCandidates;) {
    size_t length = 0;
    const size_t most = std::min(next, SuffixIndex::kMaxMatch);
    while (length < most && ids[next - 1 - length] == ids[ids.size() - 1 - length]) ++length;
    if (length < kIndexMinMatch) continue;
    ++n_candidates;
    if (length > best.length) best = {next, length};
  }
  return best;
}

void expect_as_defined(const SuffixIndex& index, const Tokens& ids) {
  ASSERT_TRUE(std::equal(ids.begin(), ids.end(), index.ids().begin(), index.ids().end()));
  const Match expected = find_naively(ids), got = index.find();
  ASSERT_EQ(got.length, expected.length) << "of " << ids.size();
  if (got.length == 0) return;
  ASSERT_EQ(got.next, expected.next) << "of " << ids.size();
  Tokens grown = ids;
  for (size_t i = 0; i < 12; ++i) {
    grown.push_back(grown[expected.next + i]);
    ASSERT_EQ(index.continuation(got, i), grown.back()) << "offset " << i;
  }
}

Tokens letters_of(const std::string& text) { return Tokens(text.begin(), text.end()); }

SuffixIndex index_of(const std::string& text) {
  SuffixIndex index;
  index.append(letters_of(text));
  return index;
}

TEST(SuffixIndexTest, FindsTokensThatFollowedAnEarlierMatch) {
  const SuffixIndex index = index_of("the cat sat. the c");
  const Match match = index.find();
  EXPECT_EQ(match.length, 5u);
  EXPECT_EQ(match.next, 5u);
  std::string next;
  for (size_t i = 0; i < 8; ++i) next += static_cast<char>(index.continuation(match, i));
  EXPECT_EQ(next, "at sat. ");
}

TEST(SuffixIndexTest, MatchHasAtLeastThreeTokens) {
  EXPECT_EQ(SuffixIndex().find().length, 0u);
  EXPECT_EQ(index_of("ab").find().length, 0u);
  EXPECT_EQ(index_of("abxab").find().length, 0u);
  EXPECT_EQ(index_of("abcxabc").find().length, 3u);
}

TEST(SuffixIndexTest, LongestMatchWinsThenTheLatest) {
  EXPECT_EQ(index_of("xyabc1 abc2 xyabc").find().next, 5u);
  EXPECT_EQ(index_of("yabc1 zabc2 xabc").find().next, 10u);
}

TEST(SuffixIndexTest, ContinuationOfAPeriodicTextRepeatsThePeriod) {
  const SuffixIndex index = index_of("abababab");
  const Match match = index.find();
  EXPECT_EQ(match.next, 6u);
  EXPECT_EQ(match.length, 6u);
  std::string next;
  for (size_t i = 0; i < 5; ++i) next += static_cast<char>(index.continuation(match, i));
  EXPECT_EQ(next, "ababa");
}

// Tokens come from small and large alphabets, with copies of earlier text; the index is truncated at any position.
TEST(SuffixIndexTest, RandomScriptsMatchExhaustiveSearch) {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const uint32_t alphabet = std::vector<uint32_t>{1, 2, 3, 8, 50, 100'000}[seed % 6];
    SuffixIndex index;
    Tokens ids;
    for (int step = 0; step < 160; ++step) {
      const uint32_t action = random() % 8;
      if (action == 0) {
        const bool far = random() % 5 == 0;
        const size_t n = far ? random() % (ids.size() + 1) : ids.size() - random() % (ids.size() / 8 + 1);
        ids.resize(n);
        index.truncate(n);
      } else if (action < 4 && !ids.empty()) {
        const size_t begin = random() % ids.size();
        const size_t end = begin + 1 + random() % 20;
        for (size_t i = begin; i < end; ++i) {
          ids.push_back(ids[i]);
          index.append(ids.back());
        }
      } else {
        Tokens fresh(1 + random() % 12);
        for (TokenId& id : fresh) id = static_cast<TokenId>(random() % alphabet);
        ids.insert(ids.end(), fresh.begin(), fresh.end());
        index.append(fresh);
      }
      expect_as_defined(index, ids);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(SuffixIndexTest, CopiesAreIndependentOfTheirOriginal) {
  SuffixIndex index = index_of("abcdefabc");
  SuffixIndex copy = index;
  copy.truncate(6);
  copy.append(letters_of("xyzdef"));
  EXPECT_EQ(copy.find().next, 6u);
  EXPECT_EQ(index.find().next, 3u);
}

// The cost of a token does not depend on the number or kind of earlier ones.
TEST(SuffixIndexTest, CostOfATokenDoesNotGrowWithLength) {
  constexpr size_t kIds = 40'000;
  // Rehashing inserts every token again, which adds 2 steps per token in total.
  constexpr size_t kMost = 2 + SuffixIndex::kMaxCandidates * (SuffixIndex::kMaxMatch - kIndexMinMatch + 1);
  for (const uint32_t alphabet : {1u, 2u, 40u, 100'000u}) {
    std::mt19937 random(alphabet);
    SuffixIndex index;
    for (size_t i = 0; i < kIds; ++i) {
      index.append(static_cast<TokenId>(random() % alphabet));
      const size_t before = index.n_steps();
      index.find();
      ASSERT_LE(index.n_steps() - before, kMost);
    }
    SuffixIndex appended;
    appended.append(index.ids());
    EXPECT_LE(appended.n_steps(), 6 * kIds) << "alphabet " << alphabet;
    appended.truncate(0);
    EXPECT_LE(appended.n_steps(), 9 * kIds) << "alphabet " << alphabet;
  }
}

// Text in which all trigrams have the same slot.
TEST(SuffixIndexTest, HashCollisionsCostNoMoreThanTheBound) {
  constexpr size_t kIds = 3 * 1000;
  constexpr uint64_t kSlots = 8192;  // of a table for that many tokens
  Tokens ids;
  for (TokenId a = 0; ids.size() < kIds; ++a) {
    const TokenId trigram[] = {a, a + 1, 7};
    if (SuffixIndex::hash(trigram) % kSlots == 3) ids.insert(ids.end(), trigram, trigram + 3);
  }
  SuffixIndex index;
  index.append(ids);
  EXPECT_LE(index.n_steps(), 2 * kIds * SuffixIndex::kMaxProbes);
  const size_t n_steps = index.n_steps();
  // Trigrams without a slot are never found. Those with a slot are found correctly, and truncation removes all of them.
  Tokens grown = ids;
  grown.insert(grown.end(), ids.begin(), ids.begin() + 300);
  for (size_t i = ids.size(); i < grown.size(); ++i) {
    index.append(grown[i]);
    const Match match = index.find();
    ASSERT_LE(match.length, i);
    for (size_t k = 0; k < match.length; ++k) ASSERT_EQ(grown[match.next - 1 - k], grown[i - k]);
  }
  index.truncate(ids.size());
  EXPECT_LE(index.n_steps() - n_steps, 300u * (2 * SuffixIndex::kMaxProbes + SuffixIndex::kMaxMatch));
  index.truncate(30);
  Tokens few(ids.begin(), ids.begin() + 30);
  few.insert(few.end(), ids.begin(), ids.begin() + 12);
  index.append(TokenSpan(few).subspan(30));
  expect_as_defined(index, few);
}

}  // namespace
}  // namespace ibid
