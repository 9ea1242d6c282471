// Layers with a window: a sequence needs only the window parts of its last pages, and the pool may evict the others.
// After any eviction, an entry must equal a cold pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/token_prefix.h"
#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

constexpr size_t kWindow = 300;

KvLayout windowed_layout(size_t n_windowed = 2, size_t window = kWindow) {
  std::vector<KvRowShape> rows(1 + n_windowed, KvRowShape{1, 8, window});
  rows[1].window = 0;  // a layer with full attention between the others
  return KvLayout::make(rows, KvDType::kF32);
}

void expect_exact(const KvCacheEntry& entry) {
  ASSERT_EQ(read_rows(entry), fresh_rows(entry.layout(), entry.tokens())) << "at " << entry.length();
}

TEST(KvWindows, PartsOfAPageAreSeparateInMemoryAndConsecutiveInFiles) {
  const KvLayout layout = windowed_layout();
  EXPECT_EQ(layout.window(), kWindow);
  EXPECT_EQ(layout.part_bytes(PagePart::kAll) + layout.part_bytes(PagePart::kWindow), layout.page_bytes());
  EXPECT_EQ(layout.part_bytes(PagePart::kWindow), 2 * layout.part_bytes(PagePart::kAll));
  EXPECT_EQ(layout.layer(1).record_offset, 0u);
  EXPECT_EQ(layout.layer(0).record_offset, layout.part_bytes(PagePart::kAll));
  EXPECT_EQ(layout.layer(2).record_offset + layout.layer(2).bytes(), layout.page_bytes());
  EXPECT_EQ(layout.first_window_page(kWindow), 0u);
  EXPECT_EQ(layout.first_window_page(kWindow + 255), 0u) << "attention takes 256 positions at a time";
  EXPECT_EQ(layout.first_window_page(kWindow + 256), 4u);
}

TEST(KvWindows, LongSequencesKeepWindowLayersOnlyWithinTheWindow) {
  // As in a model with a window of 1,024 positions in five of six layers, at 32k.
  const KvLayout layout = windowed_layout(5, 1024);
  constexpr size_t kPositions = 32768;
  const size_t all = KvLayout::pages_for(kPositions) * layout.page_bytes();
  EXPECT_LE(layout.bytes_for(kPositions), all / 4);
  KvPagePool pool(layout, all / 4);
  KvCacheEntry entry(pool);
  const Tokens tokens = random_tokens(1, kPositions);
  ASSERT_TRUE(feed_in_passes(entry, tokens, 512).ok());
  EXPECT_EQ(entry.length(), kPositions);
  expect_exact(entry);
  EXPECT_LE(pool.peak_bytes(), all / 4);
}

TEST(KvWindows, NoWindowPartIsEvictedIfMemorySuffices) {
  KvPagePool pool(windowed_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool);
  ASSERT_TRUE(feed_in_passes(entry, random_tokens(1, 3000), 100).ok());
  for (const size_t n : {2999u, 1500u, 100u, 1u}) {
    EXPECT_EQ(entry.resumable_length(n), n);
    (void)entry.slice_to_at_most(n);
    expect_exact(entry);
  }
}

TEST(KvWindows, OldestWindowPartsAreEvictedFirstAndTheEndStaysResumable) {
  const KvLayout layout = windowed_layout();
  KvPagePool pool(layout, 40 * layout.page_bytes());
  KvCacheEntry entry(pool);
  ASSERT_TRUE(feed_in_passes(entry, random_tokens(1, 30 * kPagePositions), 64).ok());
  EXPECT_EQ(entry.resumable_length(20 * kPagePositions), 20 * kPagePositions);
  std::vector<KvPage> others = pool.allocate(14).value();  // 10 pages are free; six window parts yield four more
  EXPECT_FALSE(pool.has_window(entry.pages()[0]));
  EXPECT_TRUE(pool.has_window(entry.pages()[29]));
  EXPECT_LT(entry.resumable_length(8 * kPagePositions), 8 * kPagePositions);
  expect_exact(entry);
  EXPECT_EQ(entry.resumable_length(entry.length()), entry.length());
}

TEST(KvWindows, LeasedWindowPartsAreNotEvicted) {
  const KvLayout layout = windowed_layout();
  KvPagePool pool(layout, 10 * layout.page_bytes());
  const KvPage page = pool.allocate().value();
  KvWindowLease lease = pool.lease_window(page);
  ASSERT_TRUE(static_cast<bool>(lease));
  KvWindowLease second = lease;
  lease = KvWindowLease();
  EXPECT_FALSE(pool.allocate(10).ok());
  EXPECT_TRUE(pool.has_window(page));
  second = KvWindowLease();
  EXPECT_FALSE(pool.allocate(10).ok()) << "its first part is held";
  EXPECT_TRUE(pool.has_window(page)) << "its window part alone would not suffice";
  pool.lease_window(page).end_as(WindowClass::kPassed);
  EXPECT_FALSE(pool.allocate(10).ok());
  EXPECT_FALSE(pool.has_window(page)) << "a passed part is evicted in any case";
  EXPECT_FALSE(static_cast<bool>(pool.lease_window(page)));
}

TEST(KvWindows, MoveAssignmentEndsLeasesBeforeFreeingPages) {
  const KvLayout layout = windowed_layout();
  KvPagePool pool(layout, 60 * layout.page_bytes());
  KvCacheEntry entry(pool), other(pool);
  ASSERT_TRUE(feed_in_passes(entry, random_tokens(1, 1000), 100).ok());
  ASSERT_TRUE(feed_in_passes(other, random_tokens(2, 70), 70).ok());
  entry = std::move(other);  // this drops the last handles on its old pages
  EXPECT_EQ(pool.pages_in_use(), 2u);
  expect_exact(entry);
  // Pages that were found elsewhere replace a partial last page.
  KvCacheEntry longer(pool);
  const Tokens tokens = random_tokens(2, 200);
  ASSERT_TRUE(feed(longer, tokens).ok());
  const std::vector<KvPage> pages(longer.pages().begin() + 1, longer.pages().end());
  ASSERT_TRUE(entry.adopt_more(pages, TokenSpan(tokens).subspan(70)).ok());
  EXPECT_EQ(entry.length(), 200u);
  expect_exact(entry);
}

TEST(KvWindows, ForksAndIdleSequencesResumeExactly) {
  const KvLayout layout = windowed_layout();
  KvPagePool pool(layout, 60 * layout.page_bytes());
  LruKvCacheStore store(pool);
  KvCacheEntry entry(pool);
  ASSERT_TRUE(feed_in_passes(entry, random_tokens(1, 2000), 200).ok());
  Result<KvCacheEntry> fork = entry.fork();
  ASSERT_TRUE(fork.ok());
  ASSERT_TRUE(feed_in_passes(*fork, random_tokens(2, 500), 50).ok());
  expect_exact(*fork);
  expect_exact(entry);
  IdleSequence rest;
  ASSERT_TRUE(store.insert("a", entry, {.idle = &rest}).ok());
  ASSERT_TRUE(store.make_idle(entry, rest));
  ASSERT_TRUE(store.wake(rest, entry).ok());
  EXPECT_EQ(entry.length(), 2000u);
  expect_exact(entry);
}

// Returns the bytes of an idle sequence of that length, with the window parts that it needs to resume.
size_t bytes_at_rest(const KvLayout& layout, size_t positions) {
  const size_t n_pages = KvLayout::pages_for(positions);
  return n_pages * layout.part_bytes(PagePart::kAll) +
         (n_pages - layout.first_window_page(positions)) * layout.part_bytes(PagePart::kWindow);
}

struct Chats {
  explicit Chats(size_t budget_bytes) : pool(layout, budget_bytes), store(pool) {}

  // Runs one turn of a chat: resumes the sequence, prefills `more`, makes it idle. Returns where it resumed.
  size_t turn(IdleSequence& rest, TokenSpan more, const char* name_space = "a") {
    const Tokens before(rest.tokens().begin(), rest.tokens().end());
    KvCacheEntry entry(pool);
    EXPECT_TRUE(store.wake(rest, entry).ok());
    const size_t n_found = entry.length();
    const Tokens ids = concat(before, more);
    const Status fed = feed_in_passes(entry, TokenSpan(ids).subspan(n_found), 60);
    EXPECT_TRUE(fed.ok()) << fed.to_string();
    expect_exact(entry);
    EXPECT_TRUE(store.insert(name_space, entry, {.idle = &rest}).ok());
    EXPECT_TRUE(store.make_idle(entry, rest));
    EXPECT_EQ(validate_store(store.snapshot()), std::vector<std::string>());
    return n_found;
  }

  const KvLayout layout = windowed_layout();
  KvPagePool pool;
  LruKvCacheStore store;
};

TEST(KvWindows, IdleChatStaysResumableWhileAnotherChatPrefills) {
  const KvLayout layout = windowed_layout();
  constexpr size_t kA = 1000, kB = 5000, kTurn = 50, kTurns = 6;
  // Memory for both sequences with their windows, and for a pass of B while its previous end is kept.
  const size_t budget =
      bytes_at_rest(layout, kA + kTurns * kTurn) + bytes_at_rest(layout, kB + kTurns * kTurn) + 8 * layout.page_bytes();
  Chats chats(budget);
  IdleSequence a, b;
  EXPECT_EQ(chats.turn(a, random_tokens(1, kA)), 0u);
  EXPECT_EQ(chats.turn(b, random_tokens(2, kB)), 0u);
  size_t n_a = kA, n_b = kB;
  for (size_t i = 0; i < kTurns; ++i) {
    EXPECT_EQ(chats.turn(a, random_tokens(10 + i, kTurn)), n_a) << "turn " << i << " of A";
    EXPECT_EQ(chats.turn(b, random_tokens(20 + i, kTurn)), n_b) << "turn " << i << " of B";
    n_a += kTurn, n_b += kTurn;
  }
  EXPECT_EQ(chats.store.stats().evicted_pages, 0u);
}

TEST(KvWindows, PagesOfEndedChatsAreEvictedBeforeIdleChats) {
  const KvLayout layout = windowed_layout();
  Chats chats(bytes_at_rest(layout, 1000) + bytes_at_rest(layout, 3000) + 8 * layout.page_bytes());
  IdleSequence a;
  EXPECT_EQ(chats.turn(a, random_tokens(1, 1000)), 0u);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    IdleSequence dead;
    EXPECT_EQ(chats.turn(dead, random_tokens(seed, 3000)), 0u);
  }
  EXPECT_GT(chats.store.stats().evicted_pages, 100u);
  EXPECT_EQ(chats.turn(a, random_tokens(9, 10)), 1000u);
}

// Sequence C also resumes at A's end, so that end must stay when A continues.
TEST(KvWindows, CopyStaysResumableWhenTheOriginalSequenceContinues) {
  const KvLayout layout = windowed_layout();
  Chats chats(bytes_at_rest(layout, 960) + bytes_at_rest(layout, 6000) + 8 * layout.page_bytes());
  IdleSequence a;
  EXPECT_EQ(chats.turn(a, random_tokens(1, 960)), 0u);
  IdleSequence c = chats.store.copy(a);
  EXPECT_EQ(chats.turn(a, random_tokens(2, 4900)), 960u);
  EXPECT_EQ(chats.turn(c, random_tokens(3, 10)), 960u);
  EXPECT_EQ(chats.turn(a, random_tokens(4, 100)), 5860u);
}

TEST(KvWindows, DeclaredPrefixStaysResumable) {
  const KvLayout layout = windowed_layout();
  Chats chats(bytes_at_rest(layout, 640) + bytes_at_rest(layout, 5000) + 8 * layout.page_bytes());
  const Tokens prefix = random_tokens(1, 640);
  {
    KvCacheEntry entry(chats.pool);
    ASSERT_TRUE(feed_in_passes(entry, prefix, 60).ok());
    ASSERT_TRUE(chats.store.insert("a", entry, {.retention = Retention::kPrefix}).ok());
  }
  for (uint64_t seed = 2; seed < 6; ++seed) {
    PrefixHit hit = chats.store.find_longest_prefix("a", concat(prefix, random_tokens(seed, 10)));
    EXPECT_EQ(hit.length(), prefix.size()) << "conversation " << seed;
    ASSERT_TRUE(feed_in_passes(hit.entry, random_tokens(seed, 4000), 60).ok());
    ASSERT_TRUE(chats.store.insert("a", hit.entry).ok());
    ASSERT_EQ(validate_store(chats.store.snapshot()), std::vector<std::string>());
  }
}

TEST(KvWindows, ReadingDoesNotChangeTheEvictionOrder) {
  const KvLayout layout = windowed_layout();
  KvPagePool pool(layout, 10 * layout.page_bytes());
  std::vector<KvPage> pages = pool.allocate(8).value();
  for (const KvPage& page : pages) pool.lease_window(page).end_as(WindowClass::kPassed);
  {
    const KvWindowReader reading = pool.read_window(pages[0]);
    std::vector<KvPage> others = pool.allocate(3).value();
    EXPECT_TRUE(pool.has_window(pages[0])) << "it is being read";
    EXPECT_FALSE(pool.has_window(pages[1])) << "the next one was evicted instead";
    EXPECT_TRUE(pool.has_window(pages[3]));
  }
  const std::vector<KvPage> others = pool.allocate(4).value();
  EXPECT_FALSE(pool.has_window(pages[0])) << "it is still the oldest";
}

TEST(KvWindows, MarkedResumePointIsEvictedLast) {
  const KvLayout layout = windowed_layout();
  KvPagePool pool(layout, 8 * layout.page_bytes());
  const std::vector<KvPage> pages = pool.allocate(6).value();
  for (const KvPage& page : pages) pool.lease_window(page).end_as(WindowClass::kPassed);
  pool.mark_resume_point(pages[0], true);
  {
    const std::vector<KvPage> others = pool.allocate(4).value();  // two are free; three window parts yield two
    EXPECT_TRUE(pool.has_window(pages[0]));
    for (size_t i = 1; i < 4; ++i) EXPECT_FALSE(pool.has_window(pages[i])) << i;
    EXPECT_TRUE(pool.has_window(pages[4]));
  }
  pool.mark_resume_point(pages[0], false);
  EXPECT_EQ(pool.idle_window_bytes(), 3 * layout.part_bytes(PagePart::kWindow));
}

TEST(KvWindows, WindowPartsAreLeasedAllOrNone) {
  const KvLayout layout = windowed_layout();
  KvPagePool pool(layout, 8 * layout.page_bytes());
  const std::vector<KvPage> pages = pool.allocate(3).value();
  std::vector<KvWindowLease> leases(3);
  leases[2] = pool.lease_window(pages[2]);
  pool.drop_window(pages[1]);
  EXPECT_FALSE(pool.lease_windows(pages, leases));
  EXPECT_FALSE(static_cast<bool>(leases[0]));
  const std::span<const KvPage> whole = std::span(pages).first(1);
  EXPECT_TRUE(pool.lease_windows(whole, std::span(leases).first(1)));
  EXPECT_TRUE(static_cast<bool>(leases[0]));
  EXPECT_EQ(pool.idle_window_bytes(), 0u);
}

TEST(KvWindows, RecomputedWindowPartsAreStoredAgain) {
  const KvLayout layout = windowed_layout();
  for (const size_t length : {640u, 1000u}) {
    Chats chats(60 * layout.page_bytes());
    IdleSequence rest, other;
    EXPECT_EQ(chats.turn(rest, random_tokens(1, length)), 0u);
    other = chats.store.copy(rest);
    ASSERT_TRUE(chats.store.remember_logits("a", rest.tokens(), std::vector<float>{1}).ok());
    const Tokens ids(rest.tokens().begin(), rest.tokens().end());
    const Result<PrefixPin> pin = chats.store.pin("a", ids);
    ASSERT_TRUE(pin.ok());
    {
      // Everything is pinned, so the store cannot free pages, and the pool must evict window parts at ends.
      const size_t n_free = chats.pool.budget_pages() - KvLayout::pages_for(length);
      const size_t n_more = KvLayout::pages_for(length) * layout.part_bytes(PagePart::kWindow) / layout.page_bytes();
      const std::vector<KvPage> all = chats.pool.allocate(n_free + n_more).value();
    }
    EXPECT_LT(chats.store.look_at(rest).value().length(), 64u);
    {
      const PrefixHit cut = chats.store.find_longest_prefix("a", ids);
      EXPECT_EQ(cut.misses.at(cut.length()), PrefixMiss::kWindowEvicted);
      EXPECT_EQ(cut.misses.at(length), PrefixMiss::kNotStored);
    }
    EXPECT_LT(chats.turn(rest, {}), 64u);
    EXPECT_EQ(chats.turn(rest, {}), length) << "everything was prefilled again, once";
    EXPECT_EQ(chats.store.look_at(other).value().length(), length) << "for both sequences";
    const PrefixHit hit = chats.store.find_longest_prefix("a", ids);
    EXPECT_EQ(hit.length(), length);
    EXPECT_NE(hit.logits, nullptr) << "the cached logits stayed";
    EXPECT_EQ(chats.pool.pages_in_use(), KvLayout::pages_for(length)) << "no page is stored twice";
    EXPECT_EQ(chats.store.snapshot().n_pins, 1u);
  }
}

TEST(KvWindows, RowsAfterRandomCallsEqualRecomputedRows) {
  const KvLayout layout = windowed_layout();
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    KvPagePool pool(layout, (20 + random() % 30) * layout.page_bytes());
    {
      LruKvCacheStore store(pool);
      for (size_t step = 0; step < 60; ++step) {
        const Tokens ids = random_tokens(random() % 2, 1 + random() % 1500, 2);
        PrefixHit hit = store.find_longest_prefix("a", ids);
        ASSERT_NO_FATAL_FAILURE(expect_exact(hit.entry)) << seed << " " << step;
        ASSERT_EQ(common_prefix_length(hit.entry.tokens(), ids), hit.length());
        while (hit.length() < ids.size()) {
          const size_t n = std::min<size_t>(ids.size() - hit.length(), 1 + random() % 200);
          if (!feed(hit.entry, TokenSpan(ids).subspan(hit.length(), n)).ok()) break;
          if (random() % 6 == 0)
            (void)hit.entry.slice_to_at_most(hit.length() - random() % std::min<size_t>(hit.length(), 90));
        }
        ASSERT_NO_FATAL_FAILURE(expect_exact(hit.entry)) << seed << " " << step;
        if (hit.length() > 0) (void)store.insert("a", hit.entry);
        ASSERT_LE(pool.bytes_in_use(), pool.budget_bytes());
        ASSERT_EQ(validate_store(store.snapshot()), std::vector<std::string>());
      }
    }
    ASSERT_EQ(pool.bytes_in_use(), 0u);
  }
}

}  // namespace
}  // namespace ibid
