// Compares the index of recurrent states with a list of all insertions, and lookups of a store with a cold pass.
#include "cache/store/state_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/token_prefix.h"
#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

const KvLayout kRecurrentLayout = tiny_recurrent_layout(KvDType::kF32);

class StateIndexTest : public testing::Test {
 protected:
  StateSnapshot snapshot(size_t position, size_t n_rows) {
    StateSnapshot made{position, KvPage(), nullptr, n_rows};
    if (position > 0) made.state = pool_.allocate_states(1).value().front();
    if (n_rows > 0) made.rows = std::make_shared<StateRows>(n_rows, kRecurrentLayout.state_row_floats());
    return made;
  }
  void insert(SpaceId space, TokenSpan ids, size_t position, size_t n_rows) {
    StateIndex::Removed removed;
    index_.insert(space, ids, snapshot(position, n_rows), removed);
  }
  size_t deepest_of(SpaceId space, TokenSpan ids) { return last_reachable(index_.find(space, ids)); }

  KvPagePool pool_{kRecurrentLayout, 4000 * kRecurrentLayout.state_bytes()};
  StoreSpaces spaces_{100};
  StateIndex index_{spaces_, kRecurrentLayout.state_bytes(), SIZE_MAX};
};

TEST_F(StateIndexTest, FindsTheDeepestStateAndTheTokensAfterIt) {
  const Tokens ids = random_tokens(1, 100);
  insert(kSharedSpace, ids, 30, 0);
  insert(kSharedSpace, ids, 60, 10);
  EXPECT_EQ(deepest_of(kSharedSpace, ids), 70u);
  EXPECT_EQ(deepest_of(kSharedSpace, TokenSpan(ids).first(65)), 65u);
  EXPECT_EQ(deepest_of(kSharedSpace, TokenSpan(ids).first(59)), 30u);
  EXPECT_EQ(deepest_of(kSharedSpace, TokenSpan(ids).first(29)), 0u);
  const Tokens other = concat(TokenSpan(ids).first(66), random_tokens(2, 30));
  EXPECT_EQ(deepest_of(kSharedSpace, other), 66u);
  EXPECT_THAT(index_.find(kSharedSpace, ids), testing::SizeIs(2)) << "both can be resumed";
}

TEST_F(StateIndexTest, StatesAreSeparatedByNamespace) {
  const StoreSpaces::Hold a(spaces_, "a"), b(spaces_, "b");
  const Tokens ids = random_tokens(1, 50);
  insert(a.id(), ids, 40, 0);
  EXPECT_EQ(deepest_of(a.id(), ids), 40u);
  EXPECT_EQ(deepest_of(b.id(), ids), 0u);
  EXPECT_EQ(deepest_of(kSharedSpace, ids), 0u);
  StateIndex::Removed removed;
  index_.remove_space(a.id(), removed);
  EXPECT_EQ(index_.size(), 0u);
  EXPECT_EQ(index_.bytes(), 0u);
}

TEST_F(StateIndexTest, EvictsTheCheapestStateToRecomputeFirst) {
  const Tokens ids = random_tokens(1, 2000);
  for (const size_t position : {1000u, 1010u, 1500u}) insert(kSharedSpace, ids, position, 0);
  StateIndex::Removed removed;
  ASSERT_TRUE(index_.evict(removed));  // this one takes 10 tokens to recompute
  EXPECT_EQ(deepest_of(kSharedSpace, TokenSpan(ids).first(1200)), 1000u);
  ASSERT_TRUE(index_.evict(removed));  // this one takes 500 tokens to recompute
  EXPECT_EQ(deepest_of(kSharedSpace, ids), 1000u);
}

TEST_F(StateIndexTest, EachEvictionVisitsOneState) {
  constexpr size_t kStates = 1000;
  for (size_t i = 0; i < kStates; ++i) insert(kSharedSpace, random_tokens(i, 40), 40, 0);
  const size_t before = index_.n_visited();
  for (size_t i = 0; i < kStates; ++i) {
    StateIndex::Removed removed;
    ASSERT_TRUE(index_.evict(removed));
  }
  EXPECT_EQ(index_.n_visited() - before, kStates);
  EXPECT_EQ(index_.size(), 0u);
}

TEST_F(StateIndexTest, HeldStatesAreNotEvicted) {
  const Tokens ids = random_tokens(1, 50);
  const StateSnapshot held = snapshot(20, 0);
  StateIndex::Removed removed;
  index_.insert(kSharedSpace, ids, held, removed);
  EXPECT_FALSE(index_.evict(removed)) << "evicting it would free nothing";
}

TEST_F(StateIndexTest, IndexStaysWithinItsByteLimit) {
  std::mt19937_64 random(3);
  const size_t limit = 6 * (kRecurrentLayout.state_bytes() + sizeof(StateIndex::KeptState) + 1000);
  StateIndex index(spaces_, kRecurrentLayout.state_bytes(), limit);
  for (size_t i = 0; i < 300; ++i) {
    StateIndex::Removed removed;
    index.insert(kSharedSpace, random_tokens(random() % 3, 400), snapshot(random() % 380, random() % 16), removed);
    ASSERT_LE(index.bytes(), limit);
  }
}

// Inserts random states of random branches of a few texts. Lookups must equal an exhaustive search.
TEST_F(StateIndexTest, LookupsAgreeWithAnExhaustiveSearch) {
  std::mt19937_64 random(1);
  struct Put {
    SpaceId space;
    Tokens ids;
    size_t position;
  };
  const StoreSpaces::Hold own(spaces_, "own");
  std::vector<Put> all;
  for (size_t step = 0; step < 2000; ++step) {
    const SpaceId space = random() % 2 == 0 ? kSharedSpace : own.id();
    const Tokens ids = random_tokens(random() % 4, 1 + random() % 40, 2);
    if (random() % 3 == 0) {
      const size_t position = random() % (ids.size() + 1);
      insert(space, ids, position, ids.size() - position);
      if (std::ranges::none_of(all, [&](const Put& put) {
            return put.space == space && put.position == position &&
                   common_prefix_length(put.ids, ids) == std::max(position, ids.size());
          })) {
        all.push_back({space, ids, position});
      }
    }
    size_t best = 0;  // not counting tails, some of which may have been replaced
    for (const Put& put : all) {
      const size_t same = common_prefix_length(put.ids, ids);
      if (put.space == space && same >= put.position) best = std::max(best, put.position);
    }
    size_t found = 0, reached = 0;
    for (const StateSnapshot& snapshot : index_.find(space, ids)) {
      found = std::max(found, snapshot.position);
      reached = std::max(reached, snapshot.end());
    }
    ASSERT_EQ(found, best) << step;
    ASSERT_GE(reached, best);
    ASSERT_LE(reached, ids.size());
  }
}

// --- the store

TEST(StoreStatesTest, FoundRowsAndStatesEqualRecomputedRowsAndStates) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    KvPagePool pool(kRecurrentLayout, 30 * kRecurrentLayout.page_bytes() + 12 * kRecurrentLayout.state_bytes());
    LruKvCacheStore store(pool);
    for (size_t step = 0; step < 150; ++step) {
      const std::string name = random() % 3 == 0 ? "b" : "a";
      const Tokens ids = random_tokens(random() % 3, 1 + random() % 300, 2);
      const TokenSpan wanted = TokenSpan(ids).first(1 + random() % ids.size());
      PrefixHit hit = store.find_longest_prefix(name, wanted);
      ASSERT_EQ(read_states(hit.entry), fresh_states(kRecurrentLayout, hit.entry.tokens()));
      ASSERT_EQ(read_rows(hit.entry), fresh_rows(kRecurrentLayout, hit.entry.tokens()));
      ASSERT_EQ(common_prefix_length(hit.entry.tokens(), wanted), hit.length());
      // Continue in passes of any length, and insert the result.
      while (hit.length() < wanted.size()) {
        const size_t n = std::min<size_t>(wanted.size() - hit.length(), 1 + random() % 90);
        if (!feed(hit.entry, wanted.subspan(hit.length(), n)).ok()) break;
        if (random() % 2 == 0) hit.entry.state().keep_last_pass(hit.length());
      }
      ASSERT_EQ(read_states(hit.entry), fresh_states(kRecurrentLayout, hit.entry.tokens()));
      const InsertOptions options{.sharing = random() % 8 == 0 ? Sharing::kShared : Sharing::kPrivate,
                                  .extent = random() % 4 == 0 ? Extent::kFullPages : Extent::kAll};
      if (hit.length() > 0) (void)store.insert(name, hit.entry, options);
      if (random() % 40 == 0) random() % 2 == 0 ? store.clear(name) : store.clear_shared();
      ASSERT_EQ(validate_store(store.snapshot()), std::vector<std::string>()) << seed << " " << step;
      ASSERT_LE(store.state_bytes(), pool.budget_bytes() / 2);
    }
    store.clear("a");
    store.clear("b");
    store.clear_shared();
    EXPECT_EQ(store.n_states(), 0u);
    EXPECT_EQ(pool.bytes_in_use(), 0u);
  }
}

TEST(StoreStatesTest, IdleSequencesResumeAtAKeptState) {
  KvPagePool pool(kRecurrentLayout, 64 * kRecurrentLayout.page_bytes() + 64 * kRecurrentLayout.state_bytes());
  LruKvCacheStore store(pool);
  KvCacheEntry entry(pool);
  const Tokens ids = random_tokens(1, 200);
  ASSERT_TRUE(feed(entry, TokenSpan(ids).first(120)).ok());
  entry.state().keep_here(120);
  ASSERT_TRUE(feed(entry, TokenSpan(ids).subspan(120)).ok());
  IdleSequence rest;
  ASSERT_TRUE(store.insert("a", entry, {.idle = &rest}).ok());
  ASSERT_TRUE(store.make_idle(entry, rest));
  EXPECT_EQ(pool.state_bytes_in_use(), 2 * kRecurrentLayout.state_bytes());
  ASSERT_TRUE(store.wake(rest, entry).ok());
  EXPECT_EQ(entry.length(), 200u);
  EXPECT_EQ(entry.resumable_length(199), 120u);
  EXPECT_EQ(read_states(entry), fresh_states(kRecurrentLayout, ids));
  EXPECT_EQ(entry.slice_to_at_most(199), 120u);
  EXPECT_EQ(read_states(entry), fresh_states(kRecurrentLayout, TokenSpan(ids).first(120)));
}

TEST(StoreStatesTest, ClearedStatesAreFreedAtOnce) {
  KvPagePool pool(kRecurrentLayout, 64 * kRecurrentLayout.page_bytes() + 64 * kRecurrentLayout.state_bytes());
  LruKvCacheStore store(pool);
  {
    KvCacheEntry entry(pool);
    ASSERT_TRUE(feed(entry, random_tokens(1, 100)).ok());
    ASSERT_TRUE(store.insert("a", entry).ok());
  }
  store.clear("a");
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_EQ(store.stats("a").bytes, 0u);
}

}  // namespace
}  // namespace ibid
