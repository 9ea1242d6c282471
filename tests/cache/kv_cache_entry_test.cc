#include "cache/pages/kv_cache_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "tests/cache/nan_page_pool.h"
#include "tests/cache/tiny_kv.h"

namespace ibid {
namespace {

class KvCacheEntryLaws : public testing::TestWithParam<KvDType> {
 protected:
  const KvLayout layout_ = tiny_layout(GetParam());
  NanPagePool pool_{layout_, 64 * layout_.page_bytes()};

  void expect_fresh(const KvCacheEntry& entry, TokenSpan tokens) {
    ASSERT_THAT(entry.tokens(), testing::ElementsAreArray(tokens));
    ASSERT_EQ(read_rows(entry), fresh_rows(layout_, tokens));
  }
};

INSTANTIATE_TEST_SUITE_P(AllTypes, KvCacheEntryLaws, testing::ValuesIn(kEveryKvDType));

TEST_P(KvCacheEntryLaws, EmptyEntryHasNoPositions) {
  KvCacheEntry entry(pool_);
  EXPECT_EQ(entry.length(), 0u);
  EXPECT_EQ(entry.capacity(), 0u);
  EXPECT_TRUE(entry.reserve(0).ok());
  entry.commit({});
  entry.slice_to_length(0);
  EXPECT_EQ(entry.fork()->length(), 0u);
  EXPECT_EQ(pool_.pages_in_use(), 0u);
}

TEST_P(KvCacheEntryLaws, TokensSplitIntoAnyPassesGiveTheSameRows) {
  const Tokens tokens = random_tokens(2, 150);
  for (const size_t chunk : {size_t{1}, size_t{7}, size_t{16}, size_t{63}, size_t{64}, size_t{65}, size_t{128}}) {
    KvCacheEntry entry(pool_);
    for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
      const size_t n = std::min(chunk, tokens.size() - begin);
      ASSERT_TRUE(feed(entry, TokenSpan(tokens).subspan(begin, n)).ok());
    }
    expect_fresh(entry, tokens);
    EXPECT_EQ(entry.rows_appended(), tokens.size());
    EXPECT_EQ(entry.pages_copied(), 0u);
  }
}

TEST_P(KvCacheEntryLaws, TeamsOfAnySizeStoreTheSameRows) {
  const Tokens tokens = random_tokens(3, 131);
  for (const int n_threads : {1, 2, 3}) {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, TokenSpan(tokens).first(5)).ok());
    const TokenSpan rest = TokenSpan(tokens).subspan(5);
    ASSERT_TRUE(entry.reserve(rest.size()).ok());
    const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(n_threads).value();
    for (size_t layer = 0; layer < layout_.n_layers(); ++layer) {
      const TinyRows rows = tiny_rows(layout_, entry.tokens(), rest, layer);
      team->run([&](Worker& worker) {
        entry.append(worker, tiny_kernels(), layer, rows.k.data(), rows.v.data(), layout_.layer(0).kv_dim(),
                     rest.size());
      });
    }
    entry.commit(rest);
    expect_fresh(entry, tokens);
  }
}

// append, slice and append again give the same rows as never appending the sliced ones, for every pair of lengths
// around group and page boundaries.
TEST_P(KvCacheEntryLaws, AppendAfterSliceEqualsAppendWithoutTheSlicedRows) {
  const Tokens kept = random_tokens(4, 130);
  const Tokens dropped = random_tokens(5, 70);
  const Tokens added = random_tokens(6, 66);
  for (const size_t n : {0u, 1u, 15u, 16u, 17u, 63u, 64u, 65u, 127u, 128u, 129u}) {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, concat(TokenSpan(kept).first(n), dropped)).ok());
    entry.slice_to_length(n);
    EXPECT_EQ(entry.pages().size(), KvLayout::pages_for(n));
    expect_fresh(entry, TokenSpan(kept).first(n));
    ASSERT_TRUE(feed(entry, added).ok());
    expect_fresh(entry, concat(TokenSpan(kept).first(n), added));
    EXPECT_EQ(entry.pages_copied(), 0u) << "the page has one holder";
  }
}

TEST_P(KvCacheEntryLaws, ForksAreIndependentOfEachOther) {
  for (const size_t n : {1u, 40u, 63u, 64u, 65u, 100u, 128u}) {
    const Tokens shared = random_tokens(7, n), left = random_tokens(8, 90), right = random_tokens(9, 90);
    KvCacheEntry a(pool_);
    ASSERT_TRUE(feed(a, shared).ok());
    const size_t before = pool_.pages_in_use();
    KvCacheEntry b = a.fork().value();
    EXPECT_EQ(pool_.pages_in_use(), before) << "a fork costs references only";
    expect_fresh(b, shared);
    ASSERT_TRUE(feed(b, right).ok());
    expect_fresh(a, shared);
    ASSERT_TRUE(feed(a, left).ok());
    expect_fresh(a, concat(shared, left));
    expect_fresh(b, concat(shared, right));
    const size_t partial = n % kPagePositions == 0 ? 0 : 1;
    EXPECT_EQ(b.pages_copied(), partial) << "at most the partial page";
    EXPECT_EQ(a.pages_copied(), 0u) << "the last holder writes in place";
  }
}

TEST_P(KvCacheEntryLaws, ReserveCopiesOnlyTheCommittedRows) {
  KvCacheEntry a(pool_);
  ASSERT_TRUE(feed(a, random_tokens(10, 60)).ok());
  KvCacheEntry b = a.fork().value();
  b.slice_to_length(20);
  const size_t before = pool_.bytes_copied();
  ASSERT_TRUE(b.reserve(1).ok());
  const size_t copied = pool_.bytes_copied() - before;
  EXPECT_GT(copied, 0u);
  EXPECT_LT(copied, layout_.page_bytes() / 2);
  EXPECT_EQ(a.pages()[0].use_count(), 1u);
  EXPECT_EQ(b.pages()[0].use_count(), 1u);
}

TEST_P(KvCacheEntryLaws, WriteAfterSliceIntoASharedPageCopiesThePage) {
  const Tokens tokens = random_tokens(11, 128), other = random_tokens(12, 80);
  KvCacheEntry a(pool_);
  ASSERT_TRUE(feed(a, tokens).ok());
  KvCacheEntry b = a.fork().value();
  b.slice_to_length(30);
  EXPECT_EQ(b.pages_copied(), 0u);
  ASSERT_TRUE(feed(b, other).ok());
  EXPECT_EQ(b.pages_copied(), 1u);
  expect_fresh(a, tokens);
  expect_fresh(b, concat(TokenSpan(tokens).first(30), other));
}

TEST_P(KvCacheEntryLaws, CancelledPassChangesNothing) {
  const Tokens tokens = random_tokens(13, 70), cancelled = random_tokens(14, 33), more = random_tokens(15, 40);
  for (size_t n_layers = 0; n_layers <= layout_.n_layers(); ++n_layers) {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, tokens).ok());
    ASSERT_TRUE(feed_without_commit(entry, cancelled, n_layers).ok());
    expect_fresh(entry, tokens);
    ASSERT_TRUE(feed(entry, more).ok());
    expect_fresh(entry, concat(tokens, more));
  }
}

TEST_P(KvCacheEntryLaws, SecondAppendBeforeCommitReplacesStagedRows) {
  const Tokens wrong = random_tokens(16, 9), right = random_tokens(17, 9);
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed_without_commit(entry, wrong, layout_.n_layers()).ok());
  Barrier barrier(1);
  const Worker worker(0, 1, barrier);
  for (size_t layer = 0; layer < layout_.n_layers(); ++layer) {
    const TinyRows rows = tiny_rows(layout_, {}, right, layer);
    entry.append(worker, tiny_kernels(), layer, rows.k.data(), rows.v.data(), layout_.layer(0).kv_dim(), right.size());
  }
  entry.commit(right);
  expect_fresh(entry, right);
}

TEST_P(KvCacheEntryLaws, RandomCallsMatchTheReferenceEntry) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 rng(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(rng() % n); };
    std::vector<KvCacheEntry> entries;
    std::vector<Tokens> reference_kernels;  // expected tokens of each entry
    entries.emplace_back(pool_);
    reference_kernels.emplace_back();
    for (int step = 0; step < 40; ++step) {
      const size_t i = below(entries.size());
      switch (below(5)) {
        case 0:
        case 1: {
          const Tokens more = random_tokens(rng(), 1 + below(70));
          if (entries[i].length() > 300) break;
          ASSERT_TRUE(feed(entries[i], more).ok());
          reference_kernels[i] = concat(reference_kernels[i], more);
          break;
        }
        case 2: {
          const size_t n = below(entries[i].length() + 1);
          entries[i].slice_to_length(n);
          reference_kernels[i].resize(n);
          break;
        }
        case 3:
          if (entries.size() < 5) {
            entries.push_back(entries[i].fork().value());
            reference_kernels.push_back(reference_kernels[i]);
          }
          break;
        default: ASSERT_TRUE(feed_without_commit(entries[i], random_tokens(rng(), 1 + below(70)), 1).ok());
      }
      for (size_t j = 0; j < entries.size(); ++j) expect_fresh(entries[j], reference_kernels[j]);
    }
  }
  EXPECT_EQ(pool_.pages_in_use(), 0u);
}

// For every n the pool is exhausted at the n-th page. The failing call must change nothing.
TEST_P(KvCacheEntryLaws, FailingReserveChangesNothing) {
  const Tokens tokens = random_tokens(18, 100);
  for (size_t n_pages = 2; n_pages <= 6; ++n_pages) {
    KvPagePool small(layout_, n_pages * layout_.page_bytes());
    KvCacheEntry a(small);
    ASSERT_TRUE(feed(a, tokens).ok());
    KvCacheEntry b = a.fork().value();
    const std::vector<float> rows = read_rows(b);
    const std::vector<const std::byte*> pages(b.page_data(), b.page_data() + b.pages().size());
    const size_t capacity = b.capacity();
    // Together they need 5 pages: the shared one, a's second, b's copy of the shared one and 2 more.
    const Status status = b.reserve(100);
    EXPECT_EQ(status.ok(), n_pages >= 5) << n_pages;
    if (!status.ok()) {
      EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
      EXPECT_EQ(b.capacity(), capacity);
      EXPECT_EQ(b.pages_copied(), 0u);
      EXPECT_EQ(std::vector<const std::byte*>(b.page_data(), b.page_data() + b.pages().size()), pages);
      EXPECT_EQ(small.pages_in_use(), 2u);
    }
    EXPECT_EQ(read_rows(b), rows);
    EXPECT_EQ(read_rows(a), rows);
  }
}

TEST_P(KvCacheEntryLaws, RequestBeyondTheBudgetEvictsNothing) {
  size_t asked = 0;
  const auto counting = pool_.add_reclaimer([&](size_t) {
    ++asked;
    return false;
  });
  KvCacheEntry entry(pool_);
  EXPECT_EQ(entry.reserve(64 * kPagePositions + 1).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(entry.reserve(std::numeric_limits<size_t>::max()).code(), ErrorCode::kOutOfMemory);
  ASSERT_TRUE(feed(entry, random_tokens(19, 1)).ok());
  EXPECT_EQ(entry.reserve(std::numeric_limits<size_t>::max()).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(asked, 0u);
  EXPECT_TRUE(entry.reserve(64 * kPagePositions - 1).ok());
  EXPECT_EQ(asked, 0u);
}

TEST_P(KvCacheEntryLaws, TokenArrayGrowsGeometricallyDuringDecoding) {
  KvCacheEntry entry(pool_);
  size_t moves = 0;
  const TokenId* data = nullptr;
  for (int i = 0; i < 2000; ++i) {
    const Tokens token{i};
    ASSERT_TRUE(feed(entry, token).ok());
    if (entry.tokens().data() != data) ++moves;
    data = entry.tokens().data();
  }
  EXPECT_LE(moves, 12u);
}

TEST_P(KvCacheEntryLaws, SharingAPageDoesNotChangeItsRows) {
  const Tokens tokens = random_tokens(20, 140);
  KvCacheEntry a(pool_), b(pool_);
  ASSERT_TRUE(feed(a, tokens).ok());
  ASSERT_TRUE(feed(b, tokens).ok());
  const size_t before = pool_.pages_in_use();
  b.share_page(0, a.pages()[0]);
  b.share_page(1, a.pages()[1]);
  EXPECT_EQ(pool_.pages_in_use(), before - 2);
  expect_fresh(b, tokens);
}

TEST_P(KvCacheEntryLaws, UnwrittenRowsAreNeverRead) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, random_tokens(21, 37)).ok());
  for (const float x : read_rows(entry)) ASSERT_TRUE(std::isfinite(x));
}

class KvCacheEntryDeathTest : public testing::Test {
 protected:
  const KvLayout layout_ = tiny_layout(KvDType::kF32);
  KvPagePool pool_{layout_, 8 * layout_.page_bytes()};
  const Tokens tokens_ = random_tokens(22, 10);
};

TEST_F(KvCacheEntryDeathTest, CommitRequiresRowsInEveryLayer) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed_without_commit(entry, tokens_, layout_.n_layers() - 1).ok());
  EXPECT_DEATH(entry.commit(tokens_), "rows staged in layer 1");
}

TEST_F(KvCacheEntryDeathTest, CommitRequiresOneRowPerToken) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed_without_commit(entry, tokens_, layout_.n_layers()).ok());
  EXPECT_DEATH(entry.commit(TokenSpan(tokens_).first(9)), "rows staged in layer 0");
}

TEST_F(KvCacheEntryDeathTest, CommitRejectsRowsStagedByACancelledPass) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed_without_commit(entry, tokens_, layout_.n_layers()).ok());
  ASSERT_TRUE(feed_without_commit(entry, tokens_, 1).ok());
  EXPECT_DEATH(entry.commit(tokens_), "rows staged in layer 1");
}

TEST_F(KvCacheEntryDeathTest, CommitTwiceFailsACheck) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, tokens_).ok());
  EXPECT_DEATH(entry.commit(tokens_), "rows staged in layer 0");
}

TEST_F(KvCacheEntryDeathTest, AppendWithoutReserveFailsACheck) {
  KvCacheEntry entry(pool_);
  Barrier barrier(1);
  const Worker worker(0, 1, barrier);
  const TinyRows rows = tiny_rows(layout_, {}, tokens_, 0);
  EXPECT_DEATH(entry.append(worker, tiny_kernels(), 0, rows.k.data(), rows.v.data(), layout_.layer(0).kv_dim(), 10),
               "without reserve");
  ASSERT_TRUE(feed(entry, tokens_).ok());
  const KvCacheEntry other = entry.fork().value();
  EXPECT_DEATH(entry.append(worker, tiny_kernels(), 0, rows.k.data(), rows.v.data(), layout_.layer(0).kv_dim(), 10),
               "shared page");
}

TEST_F(KvCacheEntryDeathTest, SlicePastTheEndFailsACheck) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, tokens_).ok());
  EXPECT_DEATH(entry.slice_to_length(11), "10");
  EXPECT_EQ(entry.slice_to_at_most(11), 10u);
}

TEST(KvCacheEntryGrowth, AdoptingPagesCopiesOnlyTheirOwnTokens) {
  const KvLayout layout = tiny_layout(KvDType::kF32);
  constexpr size_t kPages = 200;
  KvPagePool pool(layout, kPages * layout.page_bytes());
  const Tokens tokens = random_tokens(1, kPages * kPagePositions);
  KvCacheEntry entry(pool);
  size_t n_moves = 0;
  for (size_t i = 0; i < kPages; ++i) {
    const TokenId* before = entry.tokens().data();
    const TokenSpan more = TokenSpan(tokens).subspan(i * kPagePositions, kPagePositions);
    ASSERT_TRUE(entry.adopt_more(*pool.allocate(1), more).ok());
    n_moves += entry.tokens().data() != before ? 1 : 0;
  }
  EXPECT_EQ(entry.length(), tokens.size());
  EXPECT_LE(n_moves, 12u) << "tokens move only when their capacity doubles";
}

}  // namespace
}  // namespace ibid
