// Fixture for the tests of LruKvCacheStore: a store of small pages that is validated after every call.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/store_invariants.h"

namespace ibid {

class LruKvCacheStoreTest : public testing::Test {
 protected:
  const KvLayout layout_ = tiny_layout(KvDType::kInt8);
  KvPagePool pool_{layout_, 40 * layout_.page_bytes()};
  LruKvCacheStore store_{pool_, 1 << 30};

  void TearDown() override { expect_sound(); }

  void expect_sound() { EXPECT_THAT(validate_store(store_.snapshot()), testing::IsEmpty()); }

  KvCacheEntry fed(TokenSpan tokens) {
    KvCacheEntry entry(pool_);
    EXPECT_TRUE(feed(entry, tokens).ok());
    return entry;
  }

  // Inserts a conversation that then ends, so that only the store holds its pages.
  void store(TokenSpan tokens, const char* name_space = kAlice, Sharing sharing = Sharing::kPrivate) {
    KvCacheEntry entry = fed(tokens);
    const Status status = store_.insert(name_space, entry, sharing);
    EXPECT_TRUE(status.ok()) << status.to_string();
    expect_sound();
  }

  size_t find(TokenSpan ids, const char* name_space = kAlice) {
    const PrefixHit hit = store_.find_longest_prefix(name_space, ids);
    EXPECT_THAT(hit.entry.tokens(), testing::ElementsAreArray(ids.first(hit.length())));
    EXPECT_EQ(read_rows(hit.entry), fresh_rows(layout_, ids.first(hit.length())));
    expect_sound();
    return hit.length();
  }
};

}  // namespace ibid
