// Recurrent states in the store: they stay as long as a sequence can resume at them.
#include <random>

#include "tests/cache/store_fixture.h"

namespace ibid {
namespace {

class ReachedStatesTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_THAT(validate_store(store_.snapshot()), testing::IsEmpty()); }

  // Stores the tokens, with the states after n_kept of them and after all of them.
  void store(TokenSpan ids, size_t n_kept, const char* name_space = kAlice, Sharing sharing = Sharing::kPrivate) {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, ids.first(n_kept)).ok());
    entry.state().keep_here(n_kept);
    ASSERT_TRUE(feed(entry, ids.subspan(n_kept)).ok());
    ASSERT_TRUE(store_.insert(name_space, entry, sharing).ok());
  }
  size_t find(TokenSpan ids, const char* name_space = kAlice) {
    return store_.find_longest_prefix(name_space, ids).length();
  }

  const KvLayout layout_ = tiny_recurrent_layout(KvDType::kF32);
  KvPagePool pool_{layout_, 40 * layout_.page_bytes() + 40 * layout_.state_bytes()};
  LruKvCacheStore store_{pool_};
};

TEST_F(ReachedStatesTest, StatesAreRemovedIfAnEarlierPageIsEvicted) {
  const Tokens ids = random_tokens(1, 200);
  store(ids, 100);
  ASSERT_EQ(store_.n_states(), 2u);
  ASSERT_EQ(store_.evict(1), 1u);
  EXPECT_EQ(store_.n_states(), 1u) << "200 cannot be resumed any more";
  ASSERT_EQ(store_.evict(1), 1u);
  EXPECT_EQ(find(ids), 100u);
  ASSERT_EQ(store_.evict(1), 1u);
  EXPECT_EQ(store_.n_states(), 0u);
  EXPECT_EQ(store_.state_bytes(), 0u);
  EXPECT_EQ(pool_.state_bytes_in_use(), 0u);
}

TEST_F(ReachedStatesTest, LookupReportsWhyTokensAreMissing) {
  const Tokens ids = random_tokens(1, 200);
  store(ids, 100);
  const PrefixHit whole = store_.find_longest_prefix(kAlice, concat(ids, random_tokens(2, 10)));
  EXPECT_EQ(whole.length(), 200u);
  EXPECT_EQ(whole.misses.at(200), PrefixMiss::kNotStored);
  const PrefixHit part = store_.find_longest_prefix(kAlice, concat(TokenSpan(ids).first(150), random_tokens(2, 10)));
  EXPECT_EQ(part.length(), 100u);
  EXPECT_EQ(part.misses.at(100), PrefixMiss::kStateEvicted);
  EXPECT_EQ(part.misses.at(150), PrefixMiss::kNotStored);
  EXPECT_EQ(store_.find_longest_prefix(kBob, ids).misses.at(0), PrefixMiss::kNotStored);
}

TEST_F(ReachedStatesTest, StateStaysIfAnotherPageHasTheSameTokens) {
  const Tokens ids = random_tokens(1, 90);
  const Tokens other = concat(TokenSpan(ids).first(80), random_tokens(2, 20));
  store(ids, 75);
  store(other, 75);
  ASSERT_EQ(store_.n_states(), 3u);
  ASSERT_EQ(store_.evict(1), 1u);  // evicts the tail of the first sequence
  EXPECT_EQ(store_.n_states(), 2u);
  EXPECT_EQ(find(ids), 75u);
  EXPECT_EQ(find(other), 100u);
}

TEST_F(ReachedStatesTest, StatesAreRemovedIfTheirSharedPageIsEvicted) {
  const Tokens ids = random_tokens(1, 64);
  store(ids, 50, kBob, Sharing::kShared);
  KvCacheEntry entry = std::move(store_.find_longest_prefix(kAlice, TokenSpan(ids).first(50)).entry);
  ASSERT_EQ(entry.length(), 50u);
  entry.state().keep_here(50);
  ASSERT_TRUE(store_.insert(kAlice, entry).ok());
  const size_t n_states = store_.n_states();
  entry.slice_to_length(0);
  ASSERT_GT(store_.evict(40), 0u);
  EXPECT_GT(n_states, store_.n_states());
  EXPECT_EQ(store_.n_states(), 0u);
}

TEST_F(ReachedStatesTest, ClearingSharedPagesRemovesStatesOfTheirContinuations) {
  const Tokens ids = random_tokens(1, 64);
  store(ids, 30, kBob, Sharing::kShared);
  KvCacheEntry entry = std::move(store_.find_longest_prefix(kAlice, ids).entry);
  ASSERT_TRUE(feed(entry, random_tokens(2, 70)).ok());
  ASSERT_TRUE(store_.insert(kAlice, entry).ok());
  entry.slice_to_length(0);
  ASSERT_GT(store_.n_states(), 2u);
  store_.clear_shared();
  EXPECT_EQ(store_.n_states(), 0u);
}

// A single sequence in a pool of KvLayout::work_bytes() always has enough memory, whatever it keeps, inserts, forks and
// rolls back.
TEST(StatesAtWorkTest, PlannedMemorySufficesForOneSequence) {
  constexpr size_t kMost = 600;
  // All pages together are smaller than one state, so that no state fits into pages that are not needed yet.
  const StateShape states[] = {{160, 3}, {330, 1}};
  const KvLayout layout = KvLayout::make({}, KvDType::kF32, states);
  ASSERT_LT(KvLayout::pages_for(kMost) * layout.page_bytes(), layout.state_bytes());
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    KvPagePool pool(layout, layout.work_bytes(kMost) + layout.page_bytes());  // one page more, to copy a shared one
    LruKvCacheStore store(pool);
    std::mt19937_64 random(seed);
    KvCacheEntry entry(pool);
    while (entry.length() + 100 < kMost) {
      const size_t n = random() % 3 == 0 ? 1 + random() % 100 : 1 + random() % 4;
      const Status fed = feed(entry, random_tokens(random(), n));
      ASSERT_TRUE(fed.ok()) << "seed " << seed << " at " << entry.length() << ": " << fed.to_string();
      if (random() % 4 == 0) entry.state().keep_here(entry.length());
      if (random() % 4 == 0) entry.state().keep_last_pass(entry.length());
      if (random() % 4 == 0) (void)store.insert(kAlice, entry);
      if (random() % 8 == 0) (void)entry.slice_to_at_most(entry.length() - random() % std::min<size_t>(n, 20));
    }
  }
}

}  // namespace
}  // namespace ibid
