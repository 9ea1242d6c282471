// Properties of RecordTier beside the laws of all tiers (kv_tier_laws_test.cc): epochs, names known to be stored,
// records that are removed, and few calls to the store.
#include "cache/tier/record_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/cache/memory_store.h"
#include "tests/cache/nan_page_pool.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/idle_fakes.h"
#include "tests/support/manual_clock.h"

namespace ibid {
namespace {

class RecordTierTest : public testing::Test {
 protected:
  std::unique_ptr<RecordTier> open(const std::shared_ptr<MemoryStore>& store) {
    return std::make_unique<RecordTier>(
        RecordTierOptions{.fingerprint = FingerprintBuilder().add("test", "model").finish(), .writer = writer_}, store,
        pool_, clock_, std::make_unique<NeverIdle>());
  }
  KvCacheEntry fed(TokenSpan ids) {
    KvCacheEntry entry(pool_);
    EXPECT_TRUE(feed(entry, ids).ok());
    return entry;
  }
  void write(RecordTier& tier, std::string_view name_space, TokenSpan ids) {
    tier.write_behind(name_space, fed(ids));
    EXPECT_TRUE(tier.flush().ok());
  }
  size_t found(RecordTier& tier, std::string_view name_space, TokenSpan ids) {
    KvCacheEntry entry(pool_);
    const size_t n = tier.extend(name_space, ids, entry);
    EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids.first(n))) << "rows of another text";
    return n;
  }

  const KvLayout layout_ = tiny_layout(KvDType::kF32);
  NanPagePool pool_{layout_, 256 * layout_.page_bytes()};
  ManualClock clock_{1'700'000'000'000'000'000};
  const KvWriterId writer_{std::byte{1}, std::byte{2}};
  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(RecordTierTest, PagesOfALookUpAreAskedForInOneCall) {
  const Tokens ids = random_tokens(1, 64 * 50);
  write(*open(store_), "", ids);
  const auto tier = open(store_);
  store_->n_calls = store_->n_gets = 0;
  EXPECT_EQ(found(*tier, "", ids), ids.size());
  EXPECT_EQ(store_->n_gets, 1u);
  EXPECT_EQ(store_->n_calls, 2u) << "the epoch and the pages";
}

TEST_F(RecordTierTest, RecordsNameTheirWriter) {
  write(*open(store_), "", random_tokens(2, 130));
  size_t n = 0;
  store_->change_all([&](std::vector<std::byte>& record) {
    EXPECT_EQ(parse_kv_record_header(record)->writer, writer_);
    ++n;
  });
  EXPECT_EQ(n, 3u);
}

TEST_F(RecordTierTest, PagesThatWereReadAreNotWrittenAgain) {
  const Tokens ids = random_tokens(3, 64 * 4 + 10);
  write(*open(store_), "", ids);
  const auto tier = open(store_);
  EXPECT_EQ(found(*tier, "", ids), ids.size());
  tier->write_behind("", fed(ids));
  EXPECT_EQ(tier->stats().waiting, 0u);
}

TEST_F(RecordTierTest, EvictedPagesAreWrittenAgainAfterAMissOrAnHour) {
  const Tokens ids = random_tokens(4, 64 * 4);
  const auto tier = open(store_);
  write(*tier, "", ids);
  store_->forget_records();
  tier->write_behind("", fed(ids));
  EXPECT_EQ(tier->stats().waiting, 0u) << "known to be stored, although it is not any more";
  EXPECT_EQ(found(*tier, "", ids), 0u);
  write(*tier, "", ids);
  EXPECT_EQ(tier->stats().pages_written, 8u) << "the page that was missed, and those after it";
  clock_.advance(KnownNames::kForgetNs);
  write(*tier, "", ids);
  EXPECT_EQ(found(*tier, "", ids), ids.size());
}

TEST_F(RecordTierTest, UnsoundRecordsAreRemovedAndCounted) {
  const Tokens ids = random_tokens(5, 64 * 4);
  write(*open(store_), "", ids);
  std::mt19937_64 rng(6);
  const std::function<void(std::vector<std::byte>&)> changes[] = {
      [&](std::vector<std::byte>& r) { r[rng() % r.size()] ^= std::byte{4}; },
      [](std::vector<std::byte>& r) { r.resize(r.size() - 1); },
      [](std::vector<std::byte>& r) { r.resize(r.size() + 1); },
      [](std::vector<std::byte>& r) { r.resize(40); },
      [](std::vector<std::byte>& r) { r.clear(); },
  };
  for (const auto& change : changes) {
    store_->forget_records();
    const auto tier = open(store_);
    write(*tier, "", ids);
    store_->change_all(change);
    const size_t n = store_->size();
    EXPECT_EQ(found(*tier, "", ids), 0u);
    EXPECT_EQ(tier->stats().quarantined, 1u);
    EXPECT_EQ(store_->size(), n - 1) << "the first page is gone";
    store_->forget_records();
    clock_.advance(KnownNames::kForgetNs);
    write(*tier, "", ids);
    EXPECT_EQ(found(*tier, "", ids), ids.size());
  }
}

// Nodes with another version of this program use the same names, and would otherwise remove each other's records.
TEST_F(RecordTierTest, RecordsOfAnotherVersionAreMissesAndStay) {
  const Tokens ids = random_tokens(7, 64 * 4);
  const auto tier = open(store_);
  write(*tier, "", ids);
  store_->change_all([](std::vector<std::byte>& record) { record[8] = std::byte{9}; });
  const size_t n = store_->size();
  EXPECT_EQ(found(*tier, "", ids), 0u);
  EXPECT_EQ(store_->size(), n);
  EXPECT_EQ(tier->stats().quarantined, 0u);
}

TEST_F(RecordTierTest, StoreThatLiesLosesItsRecordsAndGivesNoWrongToken) {
  const auto tier = open(store_);
  std::vector<Tokens> texts;
  for (uint64_t i = 0; i < 20; ++i) texts.push_back(random_tokens(i, 64 + 20 * i, 3));
  for (const Tokens& text : texts) write(*tier, "", text);
  store_->lies = true;
  size_t n_used = 0;
  for (size_t round = 0; round < 500; ++round) n_used += found(*tier, "", texts[round % texts.size()]);
  EXPECT_GE(tier->stats().quarantined, 20u);
  EXPECT_LT(n_used, 10'000u);
}

// Another node clears a namespace: the epoch is in the store.
TEST_F(RecordTierTest, ClearOfOneNodeIsSeenByTheOthers) {
  const Tokens ids = random_tokens(8, 200);
  const auto a = open(store_), b = open(store_);
  write(*a, "alice", ids);
  write(*a, "bob", ids);
  EXPECT_EQ(found(*b, "alice", ids), ids.size());
  const size_t n = store_->size();
  store_->n_calls = 0;
  ASSERT_TRUE(b->clear("alice").ok());
  EXPECT_EQ(store_->n_calls, 1u) << "no record is searched for";
  EXPECT_EQ(store_->size(), n);
  EXPECT_EQ(found(*a, "alice", ids), 0u);
  EXPECT_EQ(found(*b, "alice", ids), 0u);
  EXPECT_EQ(found(*a, "bob", ids), ids.size());
  write(*a, "alice", ids);
  EXPECT_EQ(found(*b, "alice", ids), ids.size()) << "and is written again in the new epoch";
}

TEST_F(RecordTierTest, ClearedRecordsStayGoneAfterALostEpochOrASplit) {
  const Tokens ids = random_tokens(9, 200);
  const auto a = open(store_);
  write(*a, "", ids);
  const auto half = std::make_shared<MemoryStore>();
  half->merge(*store_);
  const auto b = open(half);
  EXPECT_EQ(found(*b, "", ids), ids.size());
  clock_.advance(1000);
  ASSERT_TRUE(a->clear("").ok());
  EXPECT_EQ(found(*b, "", ids), ids.size()) << "the other half has not seen it";
  store_->merge(*half);
  EXPECT_EQ(found(*a, "", ids), 0u);
  EXPECT_EQ(found(*open(store_), "", ids), 0u);
  // The node that cleared tells a store that lost the epoch.
  store_->forget_epochs();
  store_->merge(*half);
  EXPECT_EQ(found(*a, "", ids), 0u);
  EXPECT_EQ(found(*open(store_), "", ids), 0u);
  // All nodes have restarted, and the store has lost the epoch: a new one is drawn.
  store_->forget_epochs();
  clock_.advance(1000);
  EXPECT_EQ(found(*open(store_), "", ids), 0u);
}

TEST_F(RecordTierTest, ClearOfAnUnreachableStoreIsAnErrorAndThisNodeForgets) {
  const Tokens ids = random_tokens(10, 200);
  const auto tier = open(store_);
  write(*tier, "", ids);
  store_->fails = true;
  EXPECT_EQ(tier->clear("").code(), ErrorCode::kIo);
  store_->fails = false;
  EXPECT_EQ(found(*tier, "", ids), 0u);
  EXPECT_EQ(found(*open(store_), "", ids), 0u) << "the look-up has passed the epoch on";
}

TEST_F(RecordTierTest, WritingGoesOnTwoSecondsAfterAFailure) {
  const Tokens ids = random_tokens(12, 200);
  const auto tier = open(store_);
  store_->fails = true;
  tier->write_behind("", fed(ids));
  EXPECT_EQ(tier->flush().code(), ErrorCode::kIo);
  store_->fails = false;
  clock_.advance(RecordTier::kBackOffNs - 1);
  tier->write_behind("", fed(ids));
  EXPECT_EQ(tier->stats().waiting, 0u);
  EXPECT_EQ(tier->flush().code(), ErrorCode::kIo);
  clock_.advance(1);
  write(*tier, "", ids);
  EXPECT_EQ(found(*tier, "", ids), ids.size());
}

TEST(RecordTail, RoundTripsAndRefusesOtherBytes) {
  for (const auto kind : {KvRecordKind::kPage, KvRecordKind::kState}) {
    const size_t n_front = kind == KvRecordKind::kState ? 20 : 0;
    const RecordTail tail{kind, {{std::byte{7}}}, n_front, random_tokens(1, kind == KvRecordKind::kPage ? 64 : 84)};
    std::vector<std::byte> bytes = tail.encode();
    const std::optional<RecordTail> read = RecordTail::parse(bytes);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->kind, kind);
    EXPECT_EQ(read->name, tail.name);
    EXPECT_EQ(read->n_front, n_front);
    EXPECT_EQ(read->page_ids, tail.page_ids);
    for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(RecordTail::parse(std::span(bytes).first(n)).has_value());
    for (size_t at = 0; at < 3; ++at) {
      for (int value = 0; value < 256; ++value) {
        std::vector<std::byte> changed = bytes;
        changed[at] = static_cast<std::byte>(value);
        const std::optional<RecordTail> other = RecordTail::parse(changed);
        if (!other) continue;
        EXPECT_LE(other->n_front, other->page_ids.size());
        EXPECT_EQ(other->encode(), changed);
      }
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(RecordTail::parse(bytes).has_value());
  }
}

TEST(KnownNamesTest, NamesAreForgottenAfterAnHourAtAMissAndWhenThereAreTooMany) {
  ManualClock clock;
  KnownNames known(clock);
  const auto name = [](uint32_t i) {
    PageName out;
    std::memcpy(out.bytes.data(), &i, sizeof i);
    return out;
  };
  known.add(name(0), KvPageParts::kFirst);
  EXPECT_TRUE(known.has(name(0), KvPageParts::kFirst));
  EXPECT_FALSE(known.has(name(0), KvPageParts::kBoth));
  known.add(name(0));
  known.add(name(0), KvPageParts::kFirst);
  EXPECT_TRUE(known.has(name(0))) << "a part that was known stays known";
  clock.advance(KnownNames::kForgetNs - 1);
  EXPECT_TRUE(known.has(name(0)));
  clock.advance(1);
  EXPECT_FALSE(known.has(name(0)));
  known.add(name(0));
  EXPECT_TRUE(known.has(name(0)));
  known.forget(name(0));
  EXPECT_FALSE(known.has(name(0)));
  for (uint32_t i = 1; i <= KnownNames::kMostNames + 1; ++i) known.add(name(i));
  EXPECT_FALSE(known.has(name(1)));
  EXPECT_TRUE(known.has(name(2)));
  known.clear();
  EXPECT_FALSE(known.has(name(2)));
}

}  // namespace
}  // namespace ibid
