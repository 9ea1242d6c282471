// After any calls (passes of any length, cancelled passes, slices, forks, kept states), an entry resumes from the state
// that a cold pass over its tokens gives.
#include "cache/pages/sequence_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "tests/cache/tiny_kv.h"

namespace ibid {
namespace {

class SequenceStateLaws : public testing::Test {
 protected:
  void expect_exact(const KvCacheEntry& entry) {
    ASSERT_EQ(read_states(entry), fresh_states(layout_, entry.tokens())) << "at " << entry.length();
    ASSERT_EQ(read_rows(entry), fresh_rows(layout_, entry.tokens())) << "at " << entry.length();
  }

  const KvLayout layout_ = tiny_recurrent_layout(KvDType::kF32);
  KvPagePool pool_{layout_, 64 * layout_.page_bytes() + 64 * layout_.state_bytes()};
};

TEST_F(SequenceStateLaws, LayersOfAStateDoNotOverlap) {
  EXPECT_EQ(layout_.state_offset(1), 16u);
  EXPECT_EQ(layout_.state_bytes(), (16 + 48) * sizeof(float));
  EXPECT_EQ(layout_.row_offset(1), 16u);
  EXPECT_EQ(layout_.state_row_floats(), 32u);
}

void expect_cut(KvCacheEntry& entry, size_t n) {
  const size_t reached = entry.resumable_length(n);
  ASSERT_EQ(entry.slice_to_at_most(n), reached);
  ASSERT_EQ(entry.length(), reached);
}

TEST_F(SequenceStateLaws, ShortPassesCanBeSlicedAtAnyRowAndLongPassesAtNone) {
  KvCacheEntry entry(pool_);
  const Tokens long_part = random_tokens(1, kMostKeptRows + 1), short_part = random_tokens(2, kMostKeptRows);
  ASSERT_TRUE(feed(entry, long_part).ok());
  EXPECT_EQ(entry.resumable_length(long_part.size()), long_part.size());
  EXPECT_EQ(entry.resumable_length(long_part.size() - 1), 0u);
  ASSERT_TRUE(feed(entry, short_part).ok());
  for (size_t n = entry.length(); n >= long_part.size(); --n) {
    ASSERT_EQ(entry.resumable_length(n), n);
    Result<KvCacheEntry> cut = entry.fork();
    ASSERT_TRUE(cut.ok());
    cut->slice_to_length(n);
    expect_exact(*cut);
    ASSERT_TRUE(feed(*cut, random_tokens(n, 3)).ok());
    expect_exact(*cut);
  }
  EXPECT_DEATH(entry.slice_to_length(long_part.size() - 1), "0 vs 64");
  EXPECT_EQ(entry.slice_to_at_most(long_part.size() - 1), 0u) << "no state to resume from, so it starts over";
  EXPECT_EQ(entry.length(), 0u);
  ASSERT_TRUE(feed(entry, short_part).ok());
  expect_exact(entry);
}

TEST_F(SequenceStateLaws, SequenceResumesAtKeptStates) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, random_tokens(1, 100)).ok());
  entry.state().keep_here(entry.length());
  ASSERT_TRUE(feed(entry, random_tokens(2, 10)).ok());
  entry.state().keep_last_pass(entry.length());  // keeps the state at 100 with ten rows
  ASSERT_TRUE(feed(entry, random_tokens(3, 200)).ok());
  EXPECT_EQ(entry.resumable_length(309), 110u);
  EXPECT_EQ(entry.resumable_length(107), 107u);
  EXPECT_EQ(entry.resumable_length(99), 0u);
  entry.slice_to_length(107);
  expect_exact(entry);
  EXPECT_EQ(entry.resumable_length(106), 106u);
  ASSERT_TRUE(feed(entry, random_tokens(4, 70)).ok());
  expect_exact(entry);
  entry.slice_to_length(103);
  expect_exact(entry);
}

// If the pool is short, reserve() drops the snapshot that is cheapest to recompute, and no more than necessary.
TEST_F(SequenceStateLaws, ReserveDropsKeptStatesIfThePoolIsFull) {
  KvCacheEntry entry(pool_);
  for (const size_t n : {100, 80, 120}) {
    ASSERT_TRUE(feed(entry, random_tokens(n, n)).ok());
    entry.state().keep_here(entry.length());
  }
  ASSERT_EQ(entry.resumable_length(299), 180u);
  ASSERT_TRUE(entry.reserve(141).ok());  // has pages for these positions, so that only states are short
  std::vector<KvPage> others;
  for (;;) {
    Result<std::vector<KvPage>> state = pool_.allocate_states(1);
    if (!state.ok()) break;
    others.push_back(std::move(state->front()));
  }
  ASSERT_TRUE(feed(entry, random_tokens(4, 70)).ok());
  EXPECT_EQ(entry.resumable_length(299), 180u);
  ASSERT_TRUE(feed(entry, random_tokens(5, 1)).ok());
  EXPECT_EQ(entry.resumable_length(299), 100u) << "180 was dropped: it is nearest to the one before it";
  EXPECT_EQ(entry.resumable_length(350), 300u);
  ASSERT_TRUE(feed(entry, random_tokens(6, 70)).ok());
  expect_exact(entry);
}

TEST_F(SequenceStateLaws, RejectedDraftsUseAtMostFourStates) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, random_tokens(1, 20)).ok());
  for (size_t i = 0; i < 50; ++i) {
    const size_t length = entry.length();
    ASSERT_TRUE(feed(entry, random_tokens(i, 8)).ok());
    entry.slice_to_length(length + 1 + i % 7);
    expect_exact(entry);
    ASSERT_LE(pool_.state_bytes_in_use(), 4 * layout_.state_bytes());
  }
}

TEST_F(SequenceStateLaws, DecodedTokensCanBeRolledBack) {
  for (const size_t n_rows : {1u, 3u}) {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, random_tokens(1, 100)).ok());
    size_t cut_at = 100;
    while (entry.length() < 400) {
      ASSERT_TRUE(feed(entry, random_tokens(entry.length(), n_rows)).ok());
      const size_t n_back = std::min(entry.length() - cut_at, kLogOverlap);
      for (size_t n = entry.length() - n_back; n <= entry.length(); ++n) ASSERT_EQ(entry.resumable_length(n), n);
      ASSERT_LE(pool_.state_bytes_in_use(), 4 * layout_.state_bytes());
      if (entry.length() % 7 != 0 || n_back < 5) continue;  // decodes more rows than it rolls back
      entry.slice_to_length(entry.length() - n_back % 5);
      cut_at = entry.length();
      expect_exact(entry);
    }
  }
}

// Rows of a log that are part of a snapshot must never be overwritten.
TEST_F(SequenceStateLaws, SnapshotsStayUnchangedIfASharedRowLogGrows) {
  KvCacheEntry entry(pool_);
  const Tokens tokens = random_tokens(1, 140);
  ASSERT_TRUE(feed(entry, TokenSpan(tokens).first(100)).ok());
  for (size_t i = 100; i < 140; ++i) ASSERT_TRUE(feed(entry, TokenSpan(tokens).subspan(i, 1)).ok());
  entry.slice_to_length(130);
  const StateSnapshot kept = entry.state().now(130);
  EXPECT_EQ(kept.n_rows, 30u);
  entry.slice_to_length(105);
  for (size_t i = 0; i < 40; ++i) ASSERT_TRUE(feed(entry, random_tokens(i, 1)).ok());
  expect_exact(entry);
  KvCacheEntry other(pool_);
  ASSERT_TRUE(other.adopt(*pool_.allocate(3), TokenSpan(tokens).first(130), {kept}).ok());
  EXPECT_EQ(read_states(other), fresh_states(layout_, TokenSpan(tokens).first(130)));
}

TEST_F(SequenceStateLaws, RowLogsAreDroppedBeforeAPassFailsForLackOfMemory) {
  KvPagePool small(layout_, 4 * layout_.page_bytes() + 3 * layout_.state_bytes());
  KvCacheEntry entry(small);
  ASSERT_TRUE(feed(entry, random_tokens(1, 100)).ok());
  ASSERT_TRUE(entry.reserve(4 * kPagePositions - 100).ok());  // now there is memory for exactly three states
  for (size_t i = 0; i < 120; ++i) {
    ASSERT_TRUE(feed(entry, random_tokens(i, 1)).ok()) << i;
    if (i % 10 == 9) entry.slice_to_length(entry.length() - 1);
    ASSERT_LE(small.bytes_in_use(), small.budget_bytes());
  }
  expect_exact(entry);
  ASSERT_TRUE(feed(entry, random_tokens(9, 4)).ok());
  entry.slice_to_length(entry.length() - 2);
  ASSERT_TRUE(feed(entry, random_tokens(10, 8)).ok()) << "two states for a rejected draft";
  expect_exact(entry);
}

TEST_F(SequenceStateLaws, FailedStateAllocationChangesNothing) {
  KvPagePool small(layout_, 4 * layout_.page_bytes() + 2 * layout_.state_bytes());
  KvCacheEntry entry(small);
  ASSERT_TRUE(feed(entry, random_tokens(1, 10)).ok());
  Result<KvCacheEntry> held = entry.fork();  // its states are shared from here on
  ASSERT_TRUE(held.ok());
  ASSERT_TRUE(feed(entry, random_tokens(2, 10)).ok());
  Result<KvCacheEntry> other = entry.fork();
  ASSERT_TRUE(other.ok());
  Result<std::vector<KvPage>> rest = small.allocate(2);
  const Tokens before(entry.tokens().begin(), entry.tokens().end());
  const size_t in_use = small.bytes_in_use();
  while (true) {
    Result<std::vector<KvPage>> more = small.allocate_states(1);
    if (!more.ok()) break;
    rest->push_back(more->front());
  }
  const Status status = feed(entry, random_tokens(3, 5));
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory) << status.to_string();
  EXPECT_TRUE(std::equal(before.begin(), before.end(), entry.tokens().begin(), entry.tokens().end()));
  expect_exact(entry);
  EXPECT_GE(small.bytes_in_use(), in_use);
}

TEST_F(SequenceStateLaws, StatesAfterRandomCallsEqualRecomputedStates) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<KvCacheEntry> entries;
    entries.emplace_back(pool_);
    for (size_t step = 0; step < 120; ++step) {
      KvCacheEntry& entry = entries[random() % entries.size()];
      const size_t n = 1 + random() % (random() % 8 == 0 ? 100 : 9);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: {
          if (entry.length() < 500) (void)feed(entry, random_tokens(random(), n));
          break;
        }
        case 3: (void)feed_without_commit(entry, random_tokens(random(), n), layout_.n_layers()); break;
        case 4: expect_cut(entry, entry.length() - std::min(entry.length(), n)); break;
        case 5: expect_cut(entry, random() % (entry.length() + 1)); break;
        case 6:
          random() % 2 == 0 ? entry.state().keep_here(entry.length()) : entry.state().keep_last_pass(entry.length());
          break;
        case 7: {
          if (entries.size() >= 4) {
            entries.erase(entries.begin() + static_cast<ptrdiff_t>(random() % entries.size()));
          } else if (Result<KvCacheEntry> fork = entry.fork(); fork.ok()) {
            entries.push_back(*std::move(fork));
          }
          break;
        }
      }
      for (const KvCacheEntry& each : entries) ASSERT_NO_FATAL_FAILURE(expect_exact(each)) << seed << " " << step;
    }
  }
  EXPECT_EQ(pool_.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace ibid
