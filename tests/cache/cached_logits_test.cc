// Cached logits are found for exactly their tokens, only by namespaces that see them, and evicted with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CachedLogitsTest : public testing::Test {
 protected:
  const KvLayout layout_ = tiny_layout(KvDType::kInt8);
  KvPagePool pool_{layout_, 200 * layout_.page_bytes()};
  LruKvCacheStore store_{pool_, size_t{1} << 20};

  void TearDown() override { EXPECT_THAT(validate_store(store_.snapshot()), IsEmpty()); }

  void store(TokenSpan tokens, const char* name_space = kAlice, Sharing sharing = Sharing::kPrivate) {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, tokens).ok());
    ASSERT_TRUE(store_.insert(name_space, entry, sharing).ok());
    ASSERT_THAT(validate_store(store_.snapshot()), IsEmpty());
  }

  ErrorCode remember(TokenSpan ids, float logit, const char* name_space = kAlice) {
    const std::vector<float> logits{logit, 2.0f};
    const ErrorCode code = store_.remember_logits(name_space, ids, logits).code();
    EXPECT_THAT(validate_store(store_.snapshot()), IsEmpty());
    return code;
  }

  // The first logit found, or -1 if none.
  float find(TokenSpan ids, const char* name_space = kAlice) {
    const PrefixHit hit = store_.find_longest_prefix(name_space, ids);
    if (hit.logits == nullptr) return -1.0f;
    EXPECT_EQ(hit.length(), ids.size());
    EXPECT_EQ(hit.logits->size(), 2u);
    return hit.logits->front();
  }
};

TEST_F(CachedLogitsTest, FindsLogitsForExactRepeatsOnly) {
  const Tokens tokens = random_tokens(1, 150);
  store(tokens);
  for (const size_t n : {1u, 63u, 64u, 65u, 128u, 149u, 150u}) {
    ASSERT_EQ(remember(TokenSpan(tokens).first(n), static_cast<float>(n)), ErrorCode::kOk);
  }
  for (size_t n = 1; n <= 150; ++n) {
    const bool known = n == 1 || n == 63 || n == 64 || n == 65 || n == 128 || n == 149 || n == 150;
    EXPECT_EQ(find(TokenSpan(tokens).first(n)), known ? static_cast<float>(n) : -1.0f) << n;
  }
  EXPECT_EQ(find(concat(tokens, Tokens{7})), -1.0f) << "the hit does not cover all tokens";
  Tokens other = tokens;
  other[149] ^= 1;
  EXPECT_EQ(find(other), -1.0f);
  EXPECT_EQ(store_.stats(kAlice).repeats, 7u);
}

TEST_F(CachedLogitsTest, StoresLogitsOnlyAfterStoredTokens) {
  const Tokens tokens = random_tokens(2, 100);
  store(TokenSpan(tokens).first(80));
  EXPECT_EQ(remember(tokens, 1), ErrorCode::kNotFound);
  EXPECT_EQ(remember({}, 1), ErrorCode::kNotFound);
  EXPECT_EQ(remember(TokenSpan(tokens).first(80), 1, kBob), ErrorCode::kNotFound);
  EXPECT_EQ(store_.remember_logits(kAlice, TokenSpan(tokens).first(80), {}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(find(TokenSpan(tokens).first(80)), -1.0f);
}

// A prompt that ends inside a page has many completions. Its logits must be found whichever sibling a search visits.
TEST_F(CachedLogitsTest, RegeneratedAnswersShareTheLogitsOfTheirPrompt) {
  const Tokens prompt = random_tokens(3, 84);
  for (uint64_t i = 0; i < 20; ++i) {
    store(concat(prompt, random_tokens(100 + i, 30)));
    if (i == 3) {
      ASSERT_EQ(remember(prompt, 5), ErrorCode::kOk);
    }
    if (i >= 3) {
      ASSERT_EQ(find(prompt), 5) << i;
    }
  }
  for (size_t left = 20; left > 0; --left) {
    EXPECT_EQ(find(prompt), 5) << left;
    ASSERT_EQ(store_.evict(1), 1u);
  }
  EXPECT_EQ(find(prompt), -1.0f) << "the last page with these tokens is evicted";
  EXPECT_EQ(store_.charge_bytes(), store_.stats().pages * store_.page_charge_bytes());
}

TEST_F(CachedLogitsTest, PromptLogitsOutliveTheirAnswer) {
  const Tokens prompt = random_tokens(3, 84);
  // The sibling that is first in token order is evicted first, so the logits must move to the next one.
  for (TokenId i = 0; i < 6; ++i) store(concat(prompt, Tokens{i, 7}));
  ASSERT_EQ(remember(prompt, 5), ErrorCode::kOk);
  ASSERT_EQ(store_.evict(5), 5u);
  EXPECT_EQ(find(prompt), 5);
}

TEST_F(CachedLogitsTest, PageThatGrowsKeepsItsCachedLogits) {
  const Tokens tokens = random_tokens(4, 200);
  store(TokenSpan(tokens).first(20));
  ASSERT_EQ(remember(TokenSpan(tokens).first(20), 1), ErrorCode::kOk);
  store(tokens);
  EXPECT_EQ(find(TokenSpan(tokens).first(20)), 1);
}

TEST_F(CachedLogitsTest, PageKeepsFourLogitsAndReplacesTheLeastRecentlyUsedLogits) {
  const Tokens tokens = random_tokens(5, 64);
  store(tokens);
  for (size_t n = 1; n <= 4; ++n) {
    ASSERT_EQ(remember(TokenSpan(tokens).first(n), static_cast<float>(n)), ErrorCode::kOk);
  }
  EXPECT_EQ(find(TokenSpan(tokens).first(1)), 1);
  ASSERT_EQ(remember(TokenSpan(tokens).first(5), 5), ErrorCode::kOk);
  EXPECT_EQ(find(TokenSpan(tokens).first(1)), 1);
  EXPECT_EQ(find(TokenSpan(tokens).first(2)), -1.0f);
  EXPECT_EQ(find(TokenSpan(tokens).first(5)), 5);
}

TEST_F(CachedLogitsTest, CachedLogitsArePrivateOrSharedLikeTheirTokens) {
  const Tokens tokens = random_tokens(6, 100), system = random_tokens(7, 80);
  store(tokens, kAlice);
  store(tokens, kBob);
  ASSERT_EQ(remember(tokens, 1, kAlice), ErrorCode::kOk);
  EXPECT_EQ(find(tokens, kBob), -1.0f);
  EXPECT_EQ(find(tokens, kAlice), 1);
  EXPECT_EQ(find(tokens, "nobody"), -1.0f);

  store(system, kAlice, Sharing::kShared);
  ASSERT_EQ(remember(system, 2, kAlice), ErrorCode::kOk);
  EXPECT_EQ(find(system, kBob), 2) << "logits of shared tokens are shared";
  // A longer private page next to the shared one must not hide the shared page's logits.
  store(concat(system, random_tokens(8, 10)), kBob);
  EXPECT_EQ(find(system, kBob), 2);
  store_.clear(kAlice);
  EXPECT_EQ(find(tokens, kAlice), -1.0f);
  EXPECT_EQ(find(system, kAlice), 2);
}

TEST_F(CachedLogitsTest, SharingALeafPageSharesItsCachedLogits) {
  const Tokens tokens = random_tokens(9, 50);
  store(TokenSpan(tokens).first(20), kBob, Sharing::kShared);
  ASSERT_EQ(remember(TokenSpan(tokens).first(20), 1, kBob), ErrorCode::kOk);
  store(tokens, kAlice);
  ASSERT_EQ(remember(TokenSpan(tokens).first(30), 2, kAlice), ErrorCode::kOk);
  store(tokens, kAlice, Sharing::kShared);
  EXPECT_EQ(store_.shared_stats().pages, 1u);
  EXPECT_EQ(find(TokenSpan(tokens).first(20), "anybody"), 1);
  EXPECT_EQ(find(TokenSpan(tokens).first(30), "anybody"), 2);
  EXPECT_EQ(store_.shared_stats().bytes, store_.charge_bytes());
}

TEST_F(CachedLogitsTest, LogitsUseASixteenthOfTheBudgetAndReplaceLruLogits) {
  const size_t page = store_.page_charge_bytes();
  LruKvCacheStore small(pool_, 48 * page);  // budget for the logits of 3 pages
  const std::vector<float> logits(page / sizeof(float) - 64, 1.0f), too_many(4 * page / sizeof(float));
  std::vector<Tokens> prompts;
  for (uint64_t i = 0; i < 5; ++i) {
    prompts.push_back(random_tokens(20 + i, 64));
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, prompts[i]).ok());
    ASSERT_TRUE(small.insert(kAlice, entry).ok());
    ASSERT_TRUE(small.remember_logits(kAlice, prompts[i], logits).ok());
    ASSERT_THAT(validate_store(small.snapshot()), IsEmpty());
  }
  std::vector<bool> known;
  for (const Tokens& prompt : prompts) known.push_back(small.find_longest_prefix(kAlice, prompt).logits != nullptr);
  EXPECT_THAT(known, ElementsAre(false, false, true, true, true));
  const size_t charge = small.charge_bytes();
  EXPECT_EQ(small.remember_logits(kAlice, prompts[0], too_many).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(small.charge_bytes(), charge) << "an impossible insertion evicts nothing";
  EXPECT_EQ(small.stats(kAlice).bytes, charge);
}

TEST_F(CachedLogitsTest, CachedLogitsAreEvictedForPagesIfNothingElseIsEvictable) {
  const size_t page = store_.page_charge_bytes();
  LruKvCacheStore small(pool_, 16 * page);
  const std::vector<float> logits(page / sizeof(float) - 64, 1.0f);
  KvCacheEntry held(pool_), more(pool_);
  ASSERT_TRUE(feed(held, random_tokens(30, 15 * 64)).ok());
  ASSERT_TRUE(small.insert(kAlice, held).ok());
  ASSERT_TRUE(small.remember_logits(kAlice, held.tokens(), logits).ok());
  ASSERT_TRUE(feed(more, random_tokens(31, 64)).ok());
  ASSERT_TRUE(small.insert(kAlice, more).ok());
  EXPECT_EQ(small.charge_bytes(), 16 * page);
  EXPECT_EQ(small.find_longest_prefix(kAlice, held.tokens()).logits, nullptr);
  // If the budget is full of held pages, no logits can be stored.
  EXPECT_EQ(small.remember_logits(kAlice, held.tokens(), logits).code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(validate_store(small.snapshot()), IsEmpty());
}

}  // namespace
}  // namespace ibid
