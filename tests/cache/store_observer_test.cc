// An observer that only follows the reports knows all full pages of the store, after any sequence of calls.
#include "cache/store/store_observer.h"

#include <map>
#include <random>
#include <utility>

#include "tests/cache/store_fixture.h"

namespace ibid {
namespace {

class MirrorOfPages final : public StoreObserver {
 public:
  struct Page {
    uint64_t before = 0;
    std::string name_space;
    bool is_shared = false;
    Tokens tokens;
    bool operator==(const Page&) const = default;
  };

  void page_stored(const StoredPage& page) noexcept override {
    EXPECT_TRUE(page.before == 0 || pages.contains(page.before)) << "the page before it is reported first";
    const Tokens tokens(page.tokens.begin(), page.tokens.end());
    const bool is_new =
        pages.emplace(page.serial, Page{page.before, std::string(page.name_space), page.is_shared, tokens}).second;
    EXPECT_TRUE(is_new);
  }
  void page_removed(uint64_t serial) noexcept override { EXPECT_EQ(pages.erase(serial), 1u); }
  void pages_outdated() noexcept override { is_outdated = true; }
  void list_begins() noexcept override {
    pages.clear();
    is_outdated = false;
    ++n_lists;
  }
  void list_ends() noexcept override {}
  void store_ends() noexcept override { has_ended = true; }

  std::map<uint64_t, Page> pages;
  bool is_outdated = false, has_ended = false;
  size_t n_lists = 0;
};

class StoreObserverTest : public LruKvCacheStoreTest {
 protected:
  StoreObserverTest() { store_.observe(mirror_); }

  // The full pages of the store's snapshot.
  std::map<uint64_t, MirrorOfPages::Page> full_pages() const {
    const StoreSnapshot snapshot = store_.snapshot();
    std::map<uint64_t, std::string> names;
    for (const StoreSnapshot::Space& space : snapshot.spaces) names[space.id] = space.name;
    std::map<uint64_t, MirrorOfPages::Page> all;
    for (const StoreSnapshot::Node& node : snapshot.nodes) {
      if (node.ids.size() < kPagePositions) continue;
      all[node.serial] = {node.parent, names[node.space], node.space == kSharedSpace, node.ids};
    }
    return all;
  }

  const std::shared_ptr<MirrorOfPages> mirror_ = std::make_shared<MirrorOfPages>();
};

TEST_F(StoreObserverTest, OnlyFullPagesAreReported) {
  const Tokens tokens = random_tokens(1, 200);
  store(TokenSpan(tokens).first(100));
  EXPECT_EQ(mirror_->pages.size(), 1u);
  store(tokens);  // the partial page grows
  EXPECT_EQ(mirror_->pages.size(), 3u);
  EXPECT_EQ(mirror_->pages, full_pages());
  store(tokens);
  EXPECT_EQ(mirror_->pages.size(), 3u) << "stored pages are not reported again";
  store_.evict(1);
  EXPECT_EQ(mirror_->pages.size(), 3u) << "the partial page is evicted first, and was not reported";
  store_.evict(1);
  EXPECT_EQ(mirror_->pages.size(), 2u);
  store_.clear(kAlice);
  EXPECT_TRUE(mirror_->pages.empty());
  EXPECT_EQ(mirror_->n_lists, 1u);
}

TEST_F(StoreObserverTest, PagesOfOtherNamespacesHaveTheirNames) {
  const Tokens tokens = random_tokens(2, 64);
  store(tokens, kAlice);
  store(tokens, kBob);
  ASSERT_EQ(mirror_->pages.size(), 2u);
  EXPECT_EQ(mirror_->pages.begin()->second.name_space, kAlice);
  EXPECT_EQ(mirror_->pages.rbegin()->second.name_space, kBob);
  EXPECT_EQ(mirror_->pages, full_pages());
}

TEST_F(StoreObserverTest, ListIsNeededAfterPagesBecameShared) {
  const Tokens tokens = random_tokens(3, 128);
  store(tokens, kAlice);
  EXPECT_FALSE(mirror_->is_outdated);
  store(tokens, kAlice, Sharing::kShared);
  EXPECT_TRUE(mirror_->is_outdated);
  store_.observe(mirror_);
  EXPECT_EQ(mirror_->pages, full_pages());
  EXPECT_TRUE(mirror_->pages.begin()->second.is_shared);
  store(random_tokens(4, 128), kBob, Sharing::kShared);
  EXPECT_FALSE(mirror_->is_outdated) << "new pages are shared from the beginning";
  EXPECT_EQ(mirror_->pages, full_pages());
}

TEST_F(StoreObserverTest, NewObserverGetsAListAndTheOldOneNothingMore) {
  store(random_tokens(5, 300));
  const auto other = std::make_shared<MirrorOfPages>();
  store_.observe(other);
  EXPECT_EQ(other->pages, full_pages());
  store(random_tokens(6, 300));
  EXPECT_EQ(other->pages, full_pages());
  EXPECT_EQ(mirror_->pages.size(), 4u);
  store_.observe(nullptr);
  store(random_tokens(7, 300));
  EXPECT_EQ(other->pages.size(), 8u);
}

TEST_F(StoreObserverTest, EndOfTheStoreIsReported) {
  KvPagePool pool(layout_, 4 * layout_.page_bytes());
  const auto mirror = std::make_shared<MirrorOfPages>();
  {
    LruKvCacheStore store(pool, 1 << 30);
    store.observe(mirror);
    EXPECT_FALSE(mirror->has_ended);
  }
  EXPECT_TRUE(mirror->has_ended);
}

// Random conversations of three namespaces in a pool that is too small for them.
TEST_F(StoreObserverTest, MirrorFollowsRandomCalls) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const char* const names[] = {kAlice, kBob, ""};
  for (int i = 0; i < 400; ++i) {
    Tokens tokens = random_tokens(static_cast<uint32_t>(below(5)), 64 + below(400));
    if (below(2) == 0) tokens[below(tokens.size())] ^= 1;
    const bool is_shared = below(12) == 0;
    KvCacheEntry entry = fed(tokens);
    (void)store_.insert(names[below(3)], entry, is_shared ? Sharing::kShared : Sharing::kPrivate);
    if (below(10) == 0) store_.evict(below(10));
    if (below(40) == 0) store_.clear(names[below(3)]);
    if (below(60) == 0) store_.clear_shared();
    if (mirror_->is_outdated) store_.observe(mirror_);
    ASSERT_EQ(mirror_->pages, full_pages()) << i;
  }
  EXPECT_GT(store_.stats().evicted_pages, 50u);
  expect_sound();
}

// Pages that running sequences hold cannot be evicted.
TEST_F(StoreObserverTest, HeldPagesAreThoseOfSequences) {
  EXPECT_EQ(store_.n_held_pages(), 0u);
  store(random_tokens(8, 300));
  EXPECT_EQ(store_.n_held_pages(), 0u);
  KvCacheEntry running = fed(random_tokens(9, 100));
  EXPECT_EQ(store_.n_held_pages(), 2u);
  const PrefixHit hit = store_.find_longest_prefix(kAlice, random_tokens(8, 300));
  EXPECT_EQ(store_.n_held_pages(), 7u);
}

}  // namespace
}  // namespace ibid
