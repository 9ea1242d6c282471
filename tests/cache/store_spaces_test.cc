// Visibility: a pinned prefix stays for all namespaces that can read it, namespaces are separate, and shared prefixes
// serve all.
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "base/memory_marks.h"
#include "tests/cache/store_fixture.h"

namespace ibid {
namespace {

TEST_F(LruKvCacheStoreTest, PinnedPrefixesAreNotEvicted) {
  const Tokens system = random_tokens(35, 100);
  store(system);
  store(random_tokens(36, 300));
  {
    const PrefixPin pin = store_.pin(kAlice, TokenSpan(system).first(80)).value();
    EXPECT_EQ(store_.evict(100), 5u);
    EXPECT_EQ(find(system), 100u);
  }
  EXPECT_EQ(store_.evict(100), 2u);
}

TEST_F(LruKvCacheStoreTest, PinProtectsItsPageAfterThePageHasGrown) {
  const Tokens tokens = random_tokens(37, 100);
  store(TokenSpan(tokens).first(80));
  const PrefixPin pin = store_.pin(kAlice, TokenSpan(tokens).first(80)).value();
  store(tokens);
  EXPECT_EQ(store_.stats().pages, 2u);
  EXPECT_EQ(store_.evict(100), 0u);
}

TEST_F(LruKvCacheStoreTest, MovedPinsKeepTheirPrefixAndAreCounted) {
  const Tokens tokens = random_tokens(38, 64);
  store(tokens);
  std::optional<PrefixPin> a = store_.pin(kAlice, tokens).value();
  PrefixPin b = store_.pin(kAlice, tokens).value();
  PrefixPin c = std::move(*a);
  a.reset();
  EXPECT_EQ(store_.snapshot().n_pins, 2u);
  b = PrefixPin();
  EXPECT_EQ(store_.evict(1), 0u);
  c = PrefixPin();
  EXPECT_EQ(store_.evict(1), 1u);
}

TEST_F(LruKvCacheStoreTest, OnlyStoredPrefixesCanBePinned) {
  const Tokens tokens = random_tokens(39, 64);
  store(TokenSpan(tokens).first(50));
  EXPECT_EQ(store_.pin(kAlice, tokens).status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(store_.pin(kAlice, {}).status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(store_.pin(kBob, TokenSpan(tokens).first(50)).status().code(), ErrorCode::kNotFound);
}

TEST_F(LruKvCacheStoreTest, ClearingANamespaceVoidsItsPins) {
  store(random_tokens(40, 64));
  const PrefixPin pin = store_.pin(kAlice, random_tokens(40, 64)).value();
  store_.clear(kAlice);
  EXPECT_EQ(store_.stats().pages, 0u);
  EXPECT_EQ(pool_.pages_in_use(), 0u);
}

// An attacker would measure the time of an identical prompt. In another namespace it must cost as much as a miss.
TEST_F(LruKvCacheStoreTest, IdenticalPromptsOfOtherNamespacesAreMisses) {
  const Tokens prompt = random_tokens(71, 640), unknown = random_tokens(72, 640);
  store(prompt, kAlice);
  store(random_tokens(73, 64), kBob);
  store(random_tokens(74, 64), "carol");
  const auto cost = [&](const Tokens& ids) {
    const PrefixTree::Work before = store_.work();
    EXPECT_EQ(store_.find_longest_prefix(kBob, ids).length(), 0u);
    const PrefixTree::Work after = store_.work();
    return std::pair(after.tokens_compared - before.tokens_compared, after.pages_touched - before.pages_touched);
  };
  EXPECT_EQ(cost(prompt), cost(unknown));
  EXPECT_EQ(store_.stats(kBob).misses(), 2u);
  EXPECT_EQ(store_.stats(kBob).reused_tokens, 0u);
  EXPECT_EQ(find(prompt, kAlice), 640u);
}

TEST_F(LruKvCacheStoreTest, NamespacesFindAndClearOnlyTheirOwnPages) {
  const Tokens tokens = random_tokens(41, 100);
  store(tokens, kAlice);
  EXPECT_EQ(find(tokens, kBob), 0u);
  EXPECT_EQ(store_.snapshot().spaces.size(), 2u) << "a lookup does not create a namespace";
  store(tokens, kBob);
  EXPECT_EQ(store_.stats().pages, 4u) << "nothing is shared: equal pages are stored twice";
  EXPECT_EQ(find(tokens, kBob), 100u);
  store_.clear(kAlice);
  EXPECT_EQ(find(tokens, kAlice), 0u);
  EXPECT_EQ(find(tokens, kBob), 100u);
}

TEST_F(LruKvCacheStoreTest, ClearKeepsLiveEntriesAndZeroesOtherPages) {
  const Tokens tokens = random_tokens(42, 128);
  store(random_tokens(43, 64));
  const auto* gone = static_cast<const std::byte*>(store_.snapshot().nodes.at(0).page);
  KvCacheEntry live = fed(tokens);
  ASSERT_TRUE(store_.insert(kAlice, live).ok());
  store_.clear(kAlice);
  allow_memory(gone, layout_.page_bytes());  // only this test accesses a freed page
  EXPECT_TRUE(std::all_of(gone, gone + layout_.page_bytes(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(read_rows(live), fresh_rows(layout_, tokens));
  ASSERT_TRUE(store_.insert(kAlice, live).ok());
  EXPECT_EQ(find(tokens), 128u);
}

TEST_F(LruKvCacheStoreTest, EntriesOfAnotherNamespaceAreRefused) {
  KvCacheEntry entry = fed(random_tokens(44, 100));
  ASSERT_TRUE(store_.insert(kAlice, entry).ok());
  EXPECT_EQ(store_.insert(kBob, entry).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(find(entry.tokens(), kBob), 0u);
}

TEST_F(LruKvCacheStoreTest, EmptyNamespacesAreForgotten) {
  store(random_tokens(45, 64), kAlice);
  store(random_tokens(46, 64), kBob);
  EXPECT_EQ(store_.snapshot().spaces.size(), 3u);
  store_.clear(kAlice);
  store_.evict(1);
  EXPECT_EQ(store_.snapshot().spaces.size(), 1u);
  KvCacheEntry empty(pool_);
  EXPECT_TRUE(store_.insert("nothing", empty).ok());
  EXPECT_EQ(store_.snapshot().spaces.size(), 1u);
}

TEST_F(LruKvCacheStoreTest, SharedPrefixesAreFoundByAllNamespacesAndPrivateTailsByOne) {
  const Tokens system = random_tokens(47, 100), secret = random_tokens(48, 100);
  store(system, kAlice, Sharing::kShared);
  EXPECT_EQ(find(system, kBob), 100u);
  PrefixHit hit = store_.find_longest_prefix(kAlice, system);
  ASSERT_TRUE(feed(hit.entry, secret).ok());
  ASSERT_TRUE(store_.insert(kAlice, hit.entry).ok());
  EXPECT_EQ(find(concat(system, secret), kAlice), 200u);
  EXPECT_EQ(find(concat(system, secret), kBob), 100u);
  store_.clear(kAlice);
  EXPECT_EQ(find(concat(system, secret), kAlice), 100u);
  store_.clear_shared();
  EXPECT_EQ(find(system, kBob), 0u);
}

TEST_F(LruKvCacheStoreTest, PrivatePrefixCanBeSharedLater) {
  const Tokens system = random_tokens(49, 200), secret = random_tokens(50, 100);
  KvCacheEntry entry = fed(system);
  ASSERT_TRUE(store_.insert(kAlice, entry).ok());
  const PrefixPin pin = store_.pin(kAlice, system).value();
  KvCacheEntry longer = entry.fork().value();
  ASSERT_TRUE(feed(longer, secret).ok());
  ASSERT_TRUE(store_.insert(kAlice, longer).ok());
  const size_t pages = store_.stats().pages;
  ASSERT_TRUE(store_.insert(kAlice, entry, Sharing::kShared).ok());
  expect_sound();
  EXPECT_EQ(find(concat(system, secret), kAlice), 300u);
  EXPECT_EQ(find(concat(system, secret), kBob), 200u);
  EXPECT_EQ(store_.stats().pages, pages + 1) << "the last page is stored twice: shared, and private with more tokens";
}

TEST_F(LruKvCacheStoreTest, SharingTheFirstTokensOfAPageKeepsItsOtherTokensPrivate) {
  const Tokens tokens = random_tokens(51, 100);
  store(tokens, kAlice);
  PrefixHit system = store_.find_longest_prefix(kAlice, TokenSpan(tokens).first(80));
  ASSERT_TRUE(store_.insert(kAlice, system.entry, Sharing::kShared).ok());
  EXPECT_EQ(find(tokens, kBob), 64u) << "the page with the other tokens is private";
  ASSERT_TRUE(system.entry.reserve(1).ok());  // copies the last page
  ASSERT_TRUE(store_.insert(kAlice, system.entry, Sharing::kShared).ok());
  EXPECT_EQ(find(tokens, kBob), 80u);
  EXPECT_EQ(find(tokens, kAlice), 100u);
}

TEST_F(LruKvCacheStoreTest, LongerSharedLeafPageReplacesAShorterLeafPage) {
  const Tokens tokens = random_tokens(52, 50);
  store(TokenSpan(tokens).first(20), kBob, Sharing::kShared);
  const PrefixPin pin = store_.pin(kBob, TokenSpan(tokens).first(20)).value();
  KvCacheEntry entry = fed(TokenSpan(tokens).first(10));
  ASSERT_TRUE(store_.insert(kAlice, entry).ok());
  EXPECT_EQ(store_.stats(kAlice).pages, 0u) << "the shared leaf covers it";
  // Alice's own leaf is longer than the shared one. After this insertion it is shared too.
  KvCacheEntry longer = fed(TokenSpan(tokens).first(40));
  ASSERT_TRUE(store_.insert(kAlice, longer).ok());
  EXPECT_EQ(store_.stats().pages, 2u);
  ASSERT_TRUE(store_.insert(kAlice, longer, Sharing::kShared).ok());
  expect_sound();
  EXPECT_EQ(store_.stats().pages, 1u);
  EXPECT_EQ(find(tokens, kBob), 40u);
  longer = KvCacheEntry(pool_);
  EXPECT_EQ(store_.evict(1), 0u) << "the pin moved to the leaf that replaced it";
}

TEST_F(LruKvCacheStoreTest, SharingALeafPageKeepsAShorterPrivatePage) {
  const Tokens tokens = random_tokens(56, 50);
  store(TokenSpan(tokens).first(10), kAlice);
  store(TokenSpan(tokens).first(20), kBob, Sharing::kShared);
  store(TokenSpan(tokens).first(40), kAlice, Sharing::kShared);
  EXPECT_EQ(find(tokens, kBob), 40u);
  EXPECT_EQ(find(tokens, kAlice), 40u);
  EXPECT_EQ(store_.shared_stats().pages, 1u);
  EXPECT_EQ(store_.stats(kAlice).pages, 1u);
}

TEST_F(LruKvCacheStoreTest, LeafPageCanBeSharedBesideALongerSharedPage) {
  const Tokens tokens = random_tokens(60, 50), other = random_tokens(61, 30);
  store(TokenSpan(tokens).first(10), kAlice);
  store(concat(TokenSpan(tokens).first(10), other), kBob, Sharing::kShared);
  store(tokens, kAlice, Sharing::kShared);
  EXPECT_EQ(find(tokens, kBob), 50u);
  EXPECT_EQ(store_.stats().pages, 2u);
}

TEST_F(LruKvCacheStoreTest, ClearingATailKeepsTheLastUseOfItsSharedHead) {
  const Tokens head = random_tokens(57, 64), tail = random_tokens(58, 64), other = random_tokens(59, 64);
  store(head, kBob, Sharing::kShared);
  store(concat(head, tail), kAlice);
  store(other, kBob);
  EXPECT_EQ(find(concat(head, tail), kAlice), 128u);
  store_.clear(kAlice);
  EXPECT_EQ(store_.evict(1), 1u);
  EXPECT_EQ(find(other, kBob), 0u);
  EXPECT_EQ(find(head, kBob), 64u);
}

}  // namespace
}  // namespace ibid
