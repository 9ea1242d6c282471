// TwoTiers: a directory before a store that nodes share. The laws of each are tested in kv_tier_laws_test.cc.
#include "cache/tier/two_tiers.h"

#include <gtest/gtest.h>

#include "cache/tier/file_tier.h"
#include "cache/tier/record_tier.h"
#include "tests/cache/memory_store.h"
#include "tests/cache/tier_fixture.h"
#include "tests/support/idle_fakes.h"

namespace ibid {
namespace {

class TwoTiersTest : public TierTest {
 protected:
  std::unique_ptr<TwoTiers> open_both() {
    auto far = std::make_unique<RecordTier>(RecordTierOptions{.fingerprint = fingerprint_of("model")}, store_, pool_,
                                            *clock_, std::make_unique<NeverIdle>());
    return std::make_unique<TwoTiers>(open(), std::move(far), *clock_);
  }
  size_t read(KvTier& tier, TokenSpan ids, size_t known = 0) {
    KvCacheEntry entry = fed(ids.first(known));
    const size_t n = tier.extend("", ids, entry);
    EXPECT_EQ(entry.length(), known + n);
    EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids.first(known + n)));
    return n;
  }
  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(TwoTiersTest, BothGetWhatIsWritten) {
  const Tokens ids = random_tokens(1, 64 * 3 + 10);
  const auto tiers = open_both();
  tiers->write_behind("", fed(ids));
  ASSERT_TRUE(tiers->flush().ok());
  EXPECT_EQ(tiers->near().stats().pages_written, 4u);
  EXPECT_EQ(tiers->far().stats().pages_written, 4u);
  store_->n_calls = 0;
  EXPECT_EQ(read(*tiers, ids), ids.size());
  EXPECT_EQ(store_->n_calls, 0u) << "all of it is near";
}

TEST_F(TwoTiersTest, PagesFromTheFarTierAreKeptNear) {
  const Tokens ids = random_tokens(2, 64 * 5 + 10);
  const auto tiers = open_both();
  {
    RecordTier other({.fingerprint = fingerprint_of("model")}, store_, pool_, *clock_, std::make_unique<NeverIdle>());
    other.write_behind("", fed(ids));
    ASSERT_TRUE(other.flush().ok());
  }
  EXPECT_EQ(read(*tiers, ids), ids.size());
  EXPECT_EQ(tiers->near().stats().hits, 0u);
  ASSERT_TRUE(tiers->flush().ok());
  EXPECT_EQ(tiers->near().stats().pages_written, 6u);
  EXPECT_EQ(tiers->far().stats().pages_written, 0u) << "it is there already";
  store_->fails = true;
  EXPECT_EQ(read(*tiers, ids), ids.size());
}

TEST_F(TwoTiersTest, FarContinuesWhereNearEnds) {
  const Tokens ids = random_tokens(3, 64 * 6 + 20);
  const auto tiers = open_both();
  tiers->write_behind("", fed(TokenSpan(ids).first(150)));
  ASSERT_TRUE(tiers->flush().ok());
  {
    RecordTier other({.fingerprint = fingerprint_of("model")}, store_, pool_, *clock_, std::make_unique<NeverIdle>());
    other.write_behind("", fed(ids));
    ASSERT_TRUE(other.flush().ok());
  }
  for (const size_t known : {0, 20, 100, 150, 200}) EXPECT_EQ(read(*tiers, ids, known), ids.size() - known) << known;
}

TEST_F(TwoTiersTest, FailureOfOneLeavesTheOther) {
  const Tokens ids = random_tokens(4, 64 * 3);
  const auto tiers = open_both();
  store_->fails = true;
  tiers->write_behind("", fed(ids));
  EXPECT_FALSE(tiers->flush().ok());
  EXPECT_EQ(tiers->near().stats().pages_written, 3u);
  EXPECT_EQ(read(*tiers, ids), ids.size());
  EXPECT_FALSE(tiers->stats().disabled_reason.empty());
  EXPECT_EQ(tiers->clear("").code(), ErrorCode::kIo) << "the far tier may still have some";
  EXPECT_EQ(read(*tiers, ids), 0u) << "the near one has none";
  store_->fails = false;
  EXPECT_EQ(read(*tiers, ids), 0u);
}

TEST_F(TwoTiersTest, LimitOfFlushIsOfBoth) {
  const auto tiers = open_both();
  tiers->write_behind("", fed(random_tokens(5, 64 * 3)));
  EXPECT_EQ(tiers->flush(0).code(), ErrorCode::kLimitExceeded);
  EXPECT_EQ(tiers->stats().waiting, 6u);
  EXPECT_EQ(tiers->stats().pages_written, 0u);
  ASSERT_TRUE(tiers->flush().ok());
  EXPECT_EQ(tiers->stats().waiting, 0u);
  EXPECT_EQ(tiers->stats().pages_written, 6u);
}

}  // namespace
}  // namespace ibid
