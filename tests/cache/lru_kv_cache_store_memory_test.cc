// Makes every heap allocation of every call fail, once or from then on. The call must report it (or find nothing), the
// store must be valid, and nothing may have changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/failing_new.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::IsEmpty;

constexpr const char* kLongName = "a name that is too long for a string to hold it without memory of its own";

// State that a failing call must not change.
struct Seen {
  explicit Seen(const LruKvCacheStore& store, const KvCacheEntry& entry)
      : charge(store.charge_bytes()),
        pages(store.stats().pages),
        inserted(store.stats().inserted_pages),
        evicted(store.stats().evicted_pages),
        spaces(store.snapshot().spaces.size()),
        tokens(entry.tokens().begin(), entry.tokens().end()),
        rows(read_rows(entry)),
        page_data(entry.page_data(), entry.page_data() + entry.pages().size()) {}
  bool operator==(const Seen&) const = default;

  size_t charge, pages, inserted, evicted, spaces;
  Tokens tokens;
  std::vector<float> rows;
  std::vector<const std::byte*> page_data;
};

class StoreMemoryTest : public testing::TestWithParam<bool> {
 protected:
  struct World {
    World(const KvLayout& layout, size_t budget_pages, size_t store_budget_bytes)
        : pool(layout, budget_pages * layout.page_bytes()), store(pool, store_budget_bytes), entry(pool) {}
    KvPagePool pool;
    LruKvCacheStore store;
    KvCacheEntry entry;
  };

  // Runs `call` in a world newly made by `prepare`, first with allocation 0 failing, then 1 and so on, until no
  // allocation fails. `call` returns its error code.
  void fail_everywhere(size_t budget_pages, const std::function<void(World&)>& prepare,
                       const std::function<ErrorCode(World&)>& call) {
    size_t n = 0;
    for (;; ++n) {
      SCOPED_TRACE(testing::Message() << "allocation " << n);
      World world(layout_, budget_pages, store_budget_bytes_);
      prepare(world);
      const Seen before(world.store, world.entry);
      FailingNew failing(n, GetParam());
      const ErrorCode code = call(world);
      failing.stop();
      ASSERT_THAT(validate_store(world.store.snapshot()), IsEmpty());
      if (!failing.has_failed()) {
        EXPECT_EQ(code, ErrorCode::kOk);
        break;
      }
      ASSERT_EQ(code, ErrorCode::kOutOfMemory);
      ASSERT_EQ(Seen(world.store, world.entry), before);
    }
    EXPECT_GT(n, 0u) << "no allocation was tested";
  }

  void insert_into(World& world, TokenSpan tokens, const char* name_space = kLongName) {
    KvCacheEntry entry(world.pool);
    ASSERT_TRUE(feed(entry, tokens).ok());
    ASSERT_TRUE(world.store.insert(name_space, entry).ok());
  }

  const KvLayout layout_ = tiny_layout(KvDType::kInt8);
  const Tokens tokens_ = random_tokens(1, 300);
  size_t store_budget_bytes_ = size_t{1} << 20;
};

INSTANTIATE_TEST_SUITE_P(OnceAndLasting, StoreMemoryTest, testing::Bool());

TEST_P(StoreMemoryTest, FailedReserveChangesNothing) {
  fail_everywhere(
      20, [&](World& world) { ASSERT_TRUE(feed(world.entry, TokenSpan(tokens_).first(100)).ok()); },
      [&](World& world) { return world.entry.reserve(500).code(); });
}

TEST_P(StoreMemoryTest, FailedReserveThatWouldEvictAndCopyChangesNothing) {
  fail_everywhere(
      6,
      [&](World& world) {
        insert_into(world, TokenSpan(tokens_).first(100));
        world.entry = world.store.find_longest_prefix(kLongName, TokenSpan(tokens_).first(80)).entry;
        insert_into(world, random_tokens(2, 250), "bob");
      },
      [&](World& world) {
        // The list is allocated before the pool evicts anything.
        return world.entry.reserve(100).code();
      });
}

TEST_P(StoreMemoryTest, FailedForkChangesNothing) {
  fail_everywhere(
      20, [&](World& world) { ASSERT_TRUE(feed(world.entry, tokens_).ok()); },
      [&](World& world) { return world.entry.fork().status().code(); });
}

TEST_P(StoreMemoryTest, FailedInsertOfANewNamespaceChangesNothing) {
  fail_everywhere(
      20, [&](World& world) { ASSERT_TRUE(feed(world.entry, tokens_).ok()); },
      [&](World& world) { return world.store.insert(kLongName, world.entry).code(); });
}

TEST_P(StoreMemoryTest, FailedInsertThatWouldGrowALeafChangesNothing) {
  fail_everywhere(
      20,
      [&](World& world) {
        insert_into(world, TokenSpan(tokens_).first(150));
        ASSERT_TRUE(feed(world.entry, tokens_).ok());
      },
      [&](World& world) { return world.store.insert(kLongName, world.entry).code(); });
}

TEST_P(StoreMemoryTest, FailedInsertThatWouldEvictChangesNothing) {
  KvPagePool pool(layout_, 0);
  store_budget_bytes_ = 6 * LruKvCacheStore(pool).page_charge_bytes();
  fail_everywhere(
      20,
      [&](World& world) {
        insert_into(world, random_tokens(2, 250), "bob");
        ASSERT_TRUE(feed(world.entry, tokens_).ok());
      },
      [&](World& world) { return world.store.insert(kLongName, world.entry).code(); });
}

TEST_P(StoreMemoryTest, FailedInsertThatSharesAndDeclaresAPrefixChangesNothing) {
  fail_everywhere(
      20,
      [&](World& world) {
        insert_into(world, TokenSpan(tokens_).first(150));
        insert_into(world, TokenSpan(tokens_).first(140), "bob");
        ASSERT_TRUE(feed(world.entry, tokens_).ok());
      },
      [&](World& world) {
        return world.store
            .insert(kLongName, world.entry, {.sharing = Sharing::kShared, .retention = Retention::kPrefix})
            .code();
      });
}

TEST_P(StoreMemoryTest, FailedPinChangesNothing) {
  fail_everywhere(
      20, [&](World& world) { insert_into(world, tokens_); },
      [&](World& world) { return world.store.pin(kLongName, tokens_).status().code(); });
}

TEST_P(StoreMemoryTest, FailedRememberLogitsChangesNothing) {
  const std::vector<float> logits(100, 1.0f);
  fail_everywhere(
      20, [&](World& world) { insert_into(world, tokens_); },
      [&](World& world) { return world.store.remember_logits(kLongName, tokens_, logits).code(); });
}

TEST_P(StoreMemoryTest, LookupThatRunsOutOfHeapMemoryIsAMiss) {
  fail_everywhere(
      20, [&](World& world) { insert_into(world, tokens_); },
      [&](World& world) {
        const PrefixHit hit = world.store.find_longest_prefix(kLongName, tokens_);
        if (hit.length() == 0) return ErrorCode::kOutOfMemory;
        const TokenSpan found = hit.entry.tokens();
        return std::equal(found.begin(), found.end(), tokens_.begin(), tokens_.end()) ? ErrorCode::kOk
                                                                                      : ErrorCode::kMismatch;
      });
}

TEST_P(StoreMemoryTest, ErrorsNeedNoMemory) {
  KvPagePool pool(layout_, 2 * layout_.page_bytes());
  LruKvCacheStore store(pool, 0);
  KvCacheEntry entry(pool);
  ASSERT_TRUE(feed(entry, TokenSpan(tokens_).first(100)).ok());
  const std::vector<float> logits(100, 1.0f);
  for (size_t n = 0; n < 10; ++n) {
    FailingNew failing(n, GetParam());
    const ErrorCode inserted = store.insert(kLongName, entry).code();
    const ErrorCode reserved = entry.reserve(64).code();
    const ErrorCode too_much = entry.reserve(1 << 20).code();
    const ErrorCode remembered = store.remember_logits(kLongName, tokens_, logits).code();
    failing.stop();
    EXPECT_EQ(inserted, ErrorCode::kOutOfMemory);
    EXPECT_EQ(reserved, ErrorCode::kOutOfMemory);
    EXPECT_EQ(too_much, ErrorCode::kOutOfMemory);
    EXPECT_TRUE(remembered == ErrorCode::kOutOfMemory || remembered == ErrorCode::kNotFound);
  }
}

TEST(StoreNeedsNoMemory, EvictUnpinClearAppendCommitAndSliceDoNotAllocate) {
  const KvLayout layout = tiny_layout(KvDType::kInt8);
  KvPagePool pool(layout, 40 * layout.page_bytes());
  LruKvCacheStore store(pool);
  for (uint64_t i = 0; i < 8; ++i) {
    KvCacheEntry entry(pool);
    ASSERT_TRUE(feed(entry, random_tokens(i, 200)).ok());
    ASSERT_TRUE(store.insert(i % 2 == 0 ? kLongName : "bob", entry).ok());
  }
  const Tokens pinned = random_tokens(7, 200), more = random_tokens(8, 30);
  std::optional<PrefixPin> pin = store.pin("bob", pinned).value();
  KvCacheEntry entry = store.find_longest_prefix("bob", pinned).entry;
  ASSERT_TRUE(entry.reserve(30).ok());
  const TinyRows rows = tiny_rows(layout, pinned, more, 0);
  Barrier barrier(1);
  const Worker worker(0, 1, barrier);

  FailingNew failing(0, true);
  for (size_t layer = 0; layer < layout.n_layers(); ++layer) {
    entry.append(worker, tiny_kernels(), layer, rows.k.data(), rows.v.data(), layout.layer(0).kv_dim(), more.size());
  }
  entry.commit(more);
  entry.slice_to_length(100);
  const size_t n_evicted = store.evict(10);
  pin.reset();
  store.clear(kLongName);
  store.clear("bob");
  store.clear_shared();
  failing.stop();
  EXPECT_EQ(failing.allocations(), 0u);
  EXPECT_EQ(n_evicted, 10u);
  EXPECT_EQ(store.stats().pages, 0u);
  EXPECT_EQ(entry.length(), 100u);
  EXPECT_THAT(validate_store(store.snapshot()), IsEmpty());
}

}  // namespace
}  // namespace ibid
