// Idle sequences hold no pages and are evicted last; what remains of them is found by a mark, without comparing tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/failing_new.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::IsEmpty;

struct World {
  explicit World(size_t n_pages = 40) : pool(layout, n_pages * layout.page_bytes()), store(pool) {}

  // Prefills the tokens that are not stored, and makes the sequence idle.
  IdleSequence rest(TokenSpan tokens, const char* name_space = kAlice) {
    KvCacheEntry entry = store.find_longest_prefix(name_space, tokens).entry;
    EXPECT_TRUE(feed(entry, tokens.subspan(entry.length())).ok());
    IdleSequence rest;
    EXPECT_TRUE(store.insert(name_space, entry, {.idle = &rest}).ok());
    EXPECT_TRUE(store.make_idle(entry, rest));
    EXPECT_EQ(entry.length(), 0u);
    EXPECT_EQ(rest.length(), tokens.size());
    expect_sound();
    return rest;
  }
  void insert(TokenSpan tokens) { const IdleSequence gone = rest(tokens); }
  // Returns the number of stored positions, and checks their keys and values.
  size_t there(const IdleSequence& rest) {
    const KvCacheEntry entry = store.look_at(rest).value();
    EXPECT_TRUE(std::equal(entry.tokens().begin(), entry.tokens().end(), rest.tokens().begin()));
    EXPECT_EQ(read_rows(entry), fresh_rows(layout, entry.tokens()));
    return entry.length();
  }
  void expect_sound() { ASSERT_THAT(validate_store(store.snapshot()), IsEmpty()); }

  const KvLayout layout = tiny_layout(KvDType::kInt8);
  KvPagePool pool;
  LruKvCacheStore store;
};

TEST(IdleSequences, IdleSequencesHoldNoPage) {
  World world;
  const IdleSequence rest = world.rest(random_tokens(1, 200));
  EXPECT_EQ(world.there(rest), 200u);
  EXPECT_EQ(world.store.evict(100), 4u);
  EXPECT_EQ(world.pool.pages_in_use(), 0u);
  EXPECT_EQ(world.there(rest), 0u);
  EXPECT_EQ(rest.length(), 200u) << "its tokens remain, to be prefilled again";
  world.expect_sound();
}

TEST(IdleSequences, ResumingComparesAndCopiesNoTokens) {
  World world;
  IdleSequence rest = world.rest(random_tokens(1, 200));
  const TokenId* ids = rest.tokens().data();
  const size_t compared = world.store.work().tokens_compared;
  const size_t lookups = world.store.stats().lookups;
  KvCacheEntry entry(world.pool);
  ASSERT_TRUE(world.store.wake(rest, entry).ok());
  EXPECT_EQ(entry.length(), 200u);
  EXPECT_EQ(entry.tokens().data(), ids) << "moved, not copied";
  EXPECT_EQ(world.store.work().tokens_compared, compared);
  EXPECT_EQ(world.store.stats().lookups, lookups);
  EXPECT_EQ(world.store.evict(100), 0u) << "an active entry holds its pages";

  const Tokens more = random_tokens(2, 70);
  ASSERT_TRUE(feed(entry, more).ok());
  ASSERT_TRUE(world.store.insert(kAlice, entry, {.idle = &rest}).ok());
  EXPECT_LE(world.store.work().tokens_compared, compared + 2 * kPagePositions);
  ASSERT_TRUE(world.store.make_idle(entry, rest));
  EXPECT_EQ(world.there(rest), 270u);
}

TEST(StoreRest, SequenceThatIsCutToItsIdleLengthBecomesIdleAgain) {
  World world;
  IdleSequence rest = world.rest(random_tokens(1, 200));
  KvCacheEntry entry(world.pool);
  ASSERT_TRUE(world.store.wake(rest, entry).ok());
  ASSERT_TRUE(feed(entry, random_tokens(2, 70)).ok());
  ASSERT_TRUE(world.store.insert(kAlice, entry).ok());
  EXPECT_FALSE(world.store.make_idle(entry, rest)) << "positions beyond the mark would be lost";
  EXPECT_EQ(entry.length(), 270u);
  entry.slice_to_length(200);
  ASSERT_TRUE(world.store.make_idle(entry, rest));
  EXPECT_EQ(world.there(rest), 200u);
  // Slice the sequence to the middle of a page.
  ASSERT_TRUE(world.store.wake(rest, entry).ok());
  entry.slice_to_length(100);
  ASSERT_TRUE(world.store.make_idle(entry, rest));
  EXPECT_EQ(world.there(rest), 100u);
  world.expect_sound();
  ASSERT_TRUE(world.store.wake(rest, entry).ok());
  entry.slice_to_length(0);
  ASSERT_TRUE(world.store.make_idle(entry, rest));
  EXPECT_EQ(world.there(rest), 0u);
  world.expect_sound();
}

TEST(IdleSequences, PagesWithoutMarksAreEvictedBeforeIdleSequences) {
  World world(12);
  const IdleSequence first = world.rest(random_tokens(1, 150));
  const IdleSequence second = world.rest(random_tokens(2, 150));
  // These pages are used last and reused, but no idle sequence marks them.
  const Tokens others = random_tokens(3, 320);
  world.insert(others);
  EXPECT_EQ(world.store.find_longest_prefix(kAlice, others).length(), others.size());
  EXPECT_EQ(world.store.evict(5), 5u);
  EXPECT_EQ(world.there(first), 150u);
  EXPECT_EQ(world.there(second), 150u);
  EXPECT_EQ(world.store.find_longest_prefix(kAlice, others).length(), 0u);
}

TEST(IdleSequences, LongestIdleSequenceIsEvictedFirst) {
  World world(12);
  const IdleSequence first = world.rest(random_tokens(1, 180));
  IdleSequence second = world.rest(random_tokens(2, 180));
  IdleSequence third = world.rest(random_tokens(3, 180));
  KvCacheEntry entry(world.pool);
  ASSERT_TRUE(world.store.wake(second, entry).ok());
  ASSERT_TRUE(world.store.make_idle(entry, second));
  world.store.evict(2);
  EXPECT_EQ(world.there(first), 64u) << "tail before head";
  world.store.evict(1);
  EXPECT_EQ(world.there(first), 0u);
  EXPECT_EQ(world.there(third), 180u);
  world.store.evict(3);
  EXPECT_EQ(world.there(third), 0u);
  EXPECT_EQ(world.there(second), 180u) << "it was used last";
}

TEST(IdleSequences, PagesOfIdleSequencesAreEvictedLast) {
  World world(12);
  const Tokens head = random_tokens(1, 128);
  std::vector<IdleSequence> all;
  for (uint64_t i = 0; i < 5; ++i) all.push_back(world.rest(concat(head, random_tokens(10 + i, 30))));
  EXPECT_EQ(world.store.evict(5), 5u) << "the tails";
  for (const IdleSequence& rest : all) EXPECT_EQ(world.there(rest), 128u);
  world.expect_sound();
  world.insert(random_tokens(2, 128));
  EXPECT_EQ(world.store.evict(2), 2u);
  for (const IdleSequence& rest : all) EXPECT_EQ(world.there(rest), 128u);
  all.clear();
  EXPECT_EQ(world.store.snapshot().n_marks, 0u);
  world.insert(random_tokens(2, 128));
  EXPECT_EQ(world.store.evict(2), 2u);
  EXPECT_EQ(world.store.find_longest_prefix(kAlice, head).length(), 0u) << "without marks, and less recently used";
  world.expect_sound();
}

TEST(IdleSequences, IdleSequenceResumesAfterItsPageHasGrown) {
  World world;
  const Tokens ids = random_tokens(1, 150);
  const IdleSequence rest = world.rest(TokenSpan(ids).first(100));
  world.insert(ids);
  EXPECT_EQ(world.there(rest), 100u);
  EXPECT_EQ(world.store.stats().pages, 3u);
  world.expect_sound();
}

TEST(IdleSequences, IdleSequenceResumesAfterItsPageBecomesShared) {
  World world;
  const Tokens ids = random_tokens(1, 100);
  const IdleSequence rest = world.rest(TokenSpan(ids).first(90));
  KvCacheEntry entry(world.pool);
  ASSERT_TRUE(feed(entry, TokenSpan(ids).first(80)).ok());
  IdleSequence of_bob;
  ASSERT_TRUE(world.store.insert("bob", entry, {.sharing = Sharing::kShared, .idle = &of_bob}).ok());
  KvCacheEntry longer(world.pool);
  ASSERT_TRUE(feed(longer, ids).ok());
  ASSERT_TRUE(world.store.insert(kAlice, longer, Sharing::kShared).ok());
  world.expect_sound();
  EXPECT_EQ(world.there(rest), 90u);
  ASSERT_TRUE(world.store.make_idle(entry, of_bob));
  EXPECT_EQ(world.there(of_bob), 80u);
}

TEST(IdleSequences, CopyOfAnIdleSequenceMarksTheSamePages) {
  World world;
  std::optional<IdleSequence> rest = world.rest(random_tokens(1, 150));
  IdleSequence copy = world.store.copy(*rest);
  IdleSequence unmarked = world.store.copy(IdleSequence());
  EXPECT_EQ(world.there(unmarked), 0u);
  EXPECT_EQ(world.store.snapshot().n_marks, 2u);
  rest.reset();
  EXPECT_EQ(world.store.snapshot().n_marks, 1u);
  EXPECT_EQ(world.there(copy), 150u);
  unmarked = std::move(copy);
  EXPECT_EQ(world.there(unmarked), 150u);
  EXPECT_EQ(world.store.snapshot().n_marks, 1u);
  world.expect_sound();
}

TEST(StoreRest, ClearedNamespaceLeavesIdleSequenceWithoutPages) {
  World world;
  IdleSequence rest = world.rest(random_tokens(1, 150));
  const IdleSequence of_bob = world.rest(random_tokens(1, 150), "bob");
  world.store.clear(kAlice);
  EXPECT_EQ(world.there(rest), 0u);
  EXPECT_EQ(world.there(of_bob), 150u);
  KvCacheEntry entry(world.pool);
  ASSERT_TRUE(world.store.wake(rest, entry).ok());
  EXPECT_EQ(entry.length(), 0u);
  world.expect_sound();
}

TEST(IdleSequences, FailedInsertMarksNoPage) {
  World world(6);
  IdleSequence rest = world.rest(random_tokens(1, 150));
  LruKvCacheStore small(world.pool, 0);
  KvCacheEntry entry(world.pool);
  ASSERT_TRUE(feed(entry, random_tokens(2, 100)).ok());
  IdleSequence none;
  EXPECT_EQ(small.insert(kAlice, entry, {.idle = &none}).code(), ErrorCode::kOutOfMemory);
  EXPECT_FALSE(small.make_idle(entry, none));
  EXPECT_EQ(entry.length(), 100u);
}

// Every page of the pool can be stored, because logits and index memory are not taken from the pool.
TEST(IdleSequences, IdleSequencesMayHaveEveryPageOfThePool) {
  World world(16);
  std::vector<IdleSequence> all;
  for (uint64_t i = 0; i < 100; ++i) {
    all.push_back(world.rest(random_tokens(i, 64)));
    ASSERT_EQ(world.there(all.back()), 64u);
    const std::vector<float> logits(1000, 1.0f);
    (void)world.store.remember_logits(kAlice, all.back().tokens(), logits);
    ASSERT_EQ(world.store.stats().pages, std::min<size_t>(i + 1, 16)) << "logits evict no page";
  }
  EXPECT_EQ(world.pool.pages_in_use(), 16u);
}

class IdleSequencesMemoryTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(OnceAndLasting, IdleSequencesMemoryTest, testing::Bool());

TEST_P(IdleSequencesMemoryTest, AllocationFailuresChangeNothing) {
  for (size_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    World world;
    IdleSequence rest = world.rest(random_tokens(1, 100));
    KvCacheEntry entry(world.pool);
    FailingNew failing(n, GetParam());
    const ErrorCode woken = world.store.wake(rest, entry).code();
    failing.stop();
    if (woken != ErrorCode::kOk) {
      ASSERT_EQ(woken, ErrorCode::kOutOfMemory);
      ASSERT_EQ(entry.length(), 0u);
      ASSERT_EQ(world.there(rest), 100u);
      continue;
    }
    ASSERT_FALSE(failing.has_failed());
    break;
  }
  for (size_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    World world;
    KvCacheEntry entry(world.pool);
    ASSERT_TRUE(feed(entry, random_tokens(1, 200)).ok());
    IdleSequence rest;
    FailingNew failing(n, GetParam());
    const ErrorCode inserted = world.store.insert(kAlice, entry, {.idle = &rest}).code();
    const bool rests = world.store.make_idle(entry, rest);
    failing.stop();
    world.expect_sound();
    ASSERT_EQ(rests, inserted == ErrorCode::kOk);
    if (rests) {
      ASSERT_FALSE(failing.has_failed());
      ASSERT_EQ(world.there(rest), 200u);
      break;
    }
    ASSERT_EQ(inserted, ErrorCode::kOutOfMemory);
    ASSERT_EQ(entry.length(), 200u);
    ASSERT_EQ(world.store.snapshot().n_marks, 0u);
  }
}

}  // namespace
}  // namespace ibid
