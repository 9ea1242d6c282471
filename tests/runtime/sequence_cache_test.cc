// KV leased to a turn, kept or restored, on a fake model.
#include "runtime/session/sequence_cache.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "cache/store/lru_kv_cache_store.h"
#include "runtime/generate/feeding.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

struct Cached : ChatFixture {
  // A plan of these tokens, the first n_keep of which are the transcript's.
  static PromptDelta plan(Tokens ids, size_t n_keep) {
    PromptDelta delta;
    delta.n_keep = n_keep;
    delta.n_prompt = ids.size();
    delta.patch.ids = std::move(ids);
    return delta;
  }
  // Feeds the tokens that the entry lacks.
  void feed_rest(KvCacheEntry& entry, TokenSpan ids) {
    Logits logits;
    ASSERT_TRUE(
        feed(engine->state().scheduler(), entry, ids.subspan(entry.length()), WantLogits::kLast, {}, logits).ok());
  }
  // Runs and commits a turn over the tokens. Returns the number of cached ones.
  size_t read(const Tokens& ids, size_t n_keep) {
    const PromptDelta delta = plan(ids, n_keep);
    const auto lease = cache.checkout(PromptIds(delta, transcript), Priority::kNormal).value();
    const size_t n_found = lease->n_found();
    feed_rest(lease->entry(), ids);
    lease->keep({ids, ids.size(), ids.size(), nullptr, 0});
    return n_found;
  }
  std::vector<float> rows() const { return FakeModel::rows_of(*cache.held()); }

  Transcript transcript;  // empty: all tokens of a plan are in its patch here
  SequenceCache cache{engine, ""};
};

Tokens ids_of(size_t n, TokenId first = 'a') {
  Tokens ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>(first + static_cast<TokenId>(i % 20)));
  return ids;
}

TEST(SequenceCacheTest, KeptRowsAreFoundByTheNextTurn) {
  Cached c;
  const Tokens ids = ids_of(150);
  EXPECT_EQ(c.read(Tokens(ids.begin(), ids.begin() + 100), 0), 0u);
  EXPECT_EQ(c.cache.n_computed_before(), 100u);
  EXPECT_EQ(c.read(ids, 100), 100u);
  EXPECT_EQ(c.cache.held()->length(), 150u);
}

TEST(SequenceCacheTest, LeaseThatIsNotKeptRestoresTheEarlierRows) {
  Cached c;
  const Tokens ids = ids_of(100);
  c.read(ids, 0);
  const std::vector<float> before = c.rows();
  Tokens others(ids.begin(), ids.begin() + 30);
  for (size_t i = 0; i < 90; ++i) others.push_back('z');
  for (const bool computes : {false, true}) {
    {
      const PromptDelta delta = Cached::plan(others, 30);
      const auto lease = c.cache.checkout(PromptIds(delta, c.transcript), Priority::kNormal).value();
      EXPECT_EQ(lease->entry().length(), 30u);
      if (computes) c.feed_rest(lease->entry(), others);
    }
    EXPECT_EQ(c.cache.n_computed_before(), 100u);
    EXPECT_EQ(c.rows(), before);
  }
  // The KV of the failed turn stayed in the store, for a retry.
  EXPECT_EQ(c.read(others, 30), others.size() - 1);
}

TEST(SequenceCacheTest, NoPagesAreHeldBetweenTurns) {
  Cached c;
  c.read(ids_of(100), 0);
  EXPECT_EQ(c.cache.held()->length(), 100u);
  c.engine->state().store().clear("");
  EXPECT_EQ(c.cache.held()->length(), 0u);
  EXPECT_EQ(c.cache.n_computed_before(), 100u) << "the tokens were computed once";
  const PromptDelta delta = Cached::plan(ids_of(120), 100);
  const auto lease = c.cache.checkout(PromptIds(delta, c.transcript), Priority::kNormal).value();
  EXPECT_EQ(lease->n_found(), 0u);
  EXPECT_EQ(lease->n_reprefilled(), 100u);
}

TEST(SequenceCacheTest, CopyIsIndependentOfItsOriginal) {
  Cached c;
  const Tokens ids = ids_of(100);
  c.read(ids, 0);
  const std::vector<float> before = c.rows();
  SequenceCache copy = c.cache;
  Tokens more = ids;
  for (size_t i = 0; i < 40; ++i) more.push_back('y');
  std::swap(copy, c.cache);
  EXPECT_EQ(c.read(more, 100), 100u);
  EXPECT_EQ(FakeModel::rows_of(*copy.held()), before);
  EXPECT_EQ(c.cache.held()->length(), more.size());
}

TEST(SequenceCacheTest, NextTurnUsesRowsPrefilledAhead) {
  Cached c;
  const Tokens ids = ids_of(130);
  c.read(Tokens(ids.begin(), ids.begin() + 100), 0);
  AheadPrompt ahead{Tokens(ids.begin(), ids.begin() + 120), 100, false};
  const auto prefill =
      c.cache.begin_prefill(std::move(ahead), Priority::kNormal, {}, std::make_shared<Waker>()).value();
  ASSERT_NE(prefill, nullptr);
  const Usage usage = c.cache.end_prefill(*prefill).value();
  EXPECT_EQ(usage.n_cached, 100u);
  EXPECT_EQ(usage.n_prefilled, 20u);
  EXPECT_EQ(c.cache.n_computed_before(), 100u) << "no turn was committed";
  EXPECT_EQ(c.read(ids, 100), 120u);
}

}  // namespace
}  // namespace ibid
