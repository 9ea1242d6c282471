// Random scripts compare the store with a naive reference, with the validator after every operation. Also threads that
// compete for the same memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/reference/lru_twin.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::IsEmpty;

// A script of conversations that share beginnings, diverge inside pages and return to earlier texts.
class Script {
 public:
  Script(uint64_t seed, size_t budget_pages)
      : rng_(seed), pool_(layout_, budget_pages * layout_.page_bytes()), store_(pool_) {}
  ~Script() { sessions_.clear(); }

  void run(int n_steps, bool compares_with_twin) {
    for (int step = 0; step < n_steps && !testing::Test::HasFatalFailure(); ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      one_step(compares_with_twin);
      ASSERT_THAT(validate_store(store_.snapshot()), IsEmpty());
      ASSERT_LE(pool_.bytes_in_use(), pool_.budget_bytes());
      ASSERT_LE(store_.charge_bytes(), store_.budget_bytes());
    }
  }

  void finish() {
    pins_.clear();
    at_rest_.clear();
    EXPECT_EQ(store_.snapshot().n_marks, 0u);
    sessions_.clear();
    store_.evict(pool_.budget_pages());
    EXPECT_EQ(store_.stats().pages, 0u) << "no handle is left";
    EXPECT_EQ(pool_.pages_in_use(), 0u);
    EXPECT_LE(pool_.peak_bytes(), pool_.budget_bytes());
    EXPECT_THAT(validate_store(store_.snapshot()), IsEmpty());
  }

  size_t evicted() const { return store_.stats().evicted_pages; }
  size_t reused() const { return store_.stats().reused_tokens; }

 private:
  struct Session {
    std::string name_space;
    KvCacheEntry entry;
  };

  struct Resting {
    std::string name_space;
    IdleSequence rest;
  };

  size_t below(size_t n) { return static_cast<size_t>(rng_() % n); }
  std::string any_space() { return std::string(1, static_cast<char>('a' + below(3))); }

  // Returns a prompt: the beginning of an earlier text, then some tokens of a tiny vocabulary.
  Tokens any_prompt() {
    Tokens prompt;
    if (!said_.empty() && below(4) > 0) {
      const Tokens& before = said_[below(said_.size())];
      prompt.assign(before.begin(), before.begin() + static_cast<ptrdiff_t>(below(before.size() + 1)));
    }
    return concat(prompt, random_tokens(rng_(), below(90), 2));
  }

  void one_step(bool compares_with_twin) {
    switch (below(11)) {
      case 0:
      case 1: return start(compares_with_twin);
      case 2:
      case 3: return say();
      case 4: return insert(compares_with_twin);
      case 5: return fork_or_end();
      case 6: return slice_or_pin();
      case 7:
      case 8: return rest();
      case 9: return wake();
      default: return below(6) == 0 ? clear() : look(compares_with_twin);
    }
  }

  void look(bool compares_with_twin) {
    const std::string name_space = any_space();
    const Tokens prompt = any_prompt();
    const PrefixHit hit = store_.find_longest_prefix(name_space, prompt);
    const size_t expected = twin_.longest_prefix(name_space, prompt);
    if (compares_with_twin) {
      ASSERT_EQ(hit.length(), expected);
    } else {
      ASSERT_LE(hit.length(), expected) << "never more than was inserted";
    }
    ASSERT_EQ(read_rows(hit.entry), fresh_rows(layout_, TokenSpan(prompt).first(hit.length())));
  }

  void start(bool compares_with_twin) {
    if (sessions_.size() >= 6) return look(compares_with_twin);
    const std::string name_space = any_space();
    const Tokens prompt = any_prompt();
    PrefixHit hit = store_.find_longest_prefix(name_space, prompt);
    const size_t length = hit.length();
    if (feed(hit.entry, TokenSpan(prompt).subspan(length)).ok()) {
      ASSERT_EQ(read_rows(hit.entry), fresh_rows(layout_, prompt));
      said_.push_back(prompt);
    } else {
      ASSERT_EQ(hit.length(), length);
    }
    sessions_.push_back({name_space, std::move(hit.entry)});
  }

  void say() {
    if (sessions_.empty()) return;
    KvCacheEntry& entry = sessions_[below(sessions_.size())].entry;
    if (entry.length() > 400) return;
    const std::vector<float> before = read_rows(entry);
    const Tokens message = random_tokens(rng_(), 1 + below(100), 2);
    const bool is_cancelled = below(5) == 0;
    const Status status = is_cancelled ? feed_without_commit(entry, message, layout_.n_layers()) : feed(entry, message);
    if (is_cancelled || !status.ok()) {
      ASSERT_EQ(read_rows(entry), before);
    } else {
      ASSERT_EQ(read_rows(entry), fresh_rows(layout_, entry.tokens()));
      said_.emplace_back(entry.tokens().begin(), entry.tokens().end());
    }
  }

  void insert(bool compares_with_twin) {
    if (sessions_.empty()) return;
    Session& session = sessions_[below(sessions_.size())];
    const bool is_shared = below(6) == 0;
    // Copy the last page first: if it continues with another text after these positions, it could not be shared.
    if (is_shared && !session.entry.reserve(1).ok()) return;
    const Status status =
        store_.insert(session.name_space, session.entry, is_shared ? Sharing::kShared : Sharing::kPrivate);
    if (compares_with_twin) {
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
    if (status.ok()) twin_.insert(session.name_space, session.entry.tokens(), is_shared);
    ASSERT_EQ(read_rows(session.entry), fresh_rows(layout_, session.entry.tokens()));
  }

  void fork_or_end() {
    if (sessions_.empty()) return;
    const size_t i = below(sessions_.size());
    if (below(2) == 0 && sessions_.size() < 6) {
      sessions_.push_back({sessions_[i].name_space, sessions_[i].entry.fork().value()});
    } else {
      sessions_.erase(sessions_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void rest() {
    if (sessions_.empty()) return;
    Session session = std::move(sessions_.back());
    sessions_.pop_back();
    IdleSequence rest;
    const Status status = store_.insert(session.name_space, session.entry, {.idle = &rest});
    if (status.ok()) twin_.insert(session.name_space, session.entry.tokens(), false);
    const Tokens ids(session.entry.tokens().begin(), session.entry.tokens().end());
    // Not idle: the last page, which continues with another text after these positions, would not be found again.
    if (!store_.make_idle(session.entry, rest)) {
      sessions_.push_back(std::move(session));
      return;
    }
    ASSERT_TRUE(status.ok());
    ASSERT_EQ(Tokens(rest.tokens().begin(), rest.tokens().end()), ids);
    if (below(4) == 0) at_rest_.push_back({session.name_space, store_.copy(rest)});
    at_rest_.push_back({session.name_space, std::move(rest)});
    while (at_rest_.size() > 12) at_rest_.erase(at_rest_.begin() + static_cast<ptrdiff_t>(below(at_rest_.size())));
  }

  void wake() {
    if (at_rest_.empty()) return;
    const size_t i = below(at_rest_.size());
    Resting& resting = at_rest_[i];
    const Tokens ids(resting.rest.tokens().begin(), resting.rest.tokens().end());
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(store_.wake(resting.rest, entry).ok());
    ASSERT_LE(entry.length(), ids.size());
    ASSERT_EQ(read_rows(entry), fresh_rows(layout_, TokenSpan(ids).first(entry.length())));
    if (below(2) == 0) {
      (void)entry.slice_to_at_most(below(entry.length() + 1));
      ASSERT_TRUE(store_.make_idle(entry, resting.rest));
    } else {
      if (sessions_.size() < 6) sessions_.push_back({resting.name_space, std::move(entry)});
      at_rest_.erase(at_rest_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void slice_or_pin() {
    if (below(3) == 0 && !said_.empty()) {
      const Tokens& ids = said_[below(said_.size())];
      Result<PrefixPin> pin = store_.pin(any_space(), ids);
      if (pin.ok()) pins_.push_back(std::move(*pin));
      if (pins_.size() > 3) pins_.erase(pins_.begin());
    } else if (!sessions_.empty()) {
      KvCacheEntry& entry = sessions_[below(sessions_.size())].entry;
      (void)entry.slice_to_at_most(below(entry.length() + 1));
    }
  }

  void clear() {
    const std::string name_space = any_space();
    store_.clear(name_space);
    twin_.clear(name_space);
  }

  const KvLayout layout_ = KvLayout::make(1, 1, 4, KvDType::kInt8);
  std::mt19937_64 rng_;
  KvPagePool pool_;
  LruKvCacheStore store_;
  LruReference twin_;
  std::vector<Session> sessions_;
  std::vector<Resting> at_rest_;
  std::vector<PrefixPin> pins_;
  std::vector<Tokens> said_;
};

TEST(LruKvCacheStoreScripts, LookupsAfterRandomCallsMatchTheReferenceStore) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Script script(seed, 5000);
    script.run(150, true);
    ASSERT_EQ(script.evicted(), 0u) << "evictions would make the comparison invalid";
    ASSERT_GT(script.reused(), 0u);
    script.finish();
    if (testing::Test::HasFailure()) break;
  }
}

TEST(LruKvCacheStoreScripts, RowsAreExactAndTheBudgetHoldsUnderMemoryPressure) {
  size_t evicted = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Script script(seed, 6 + seed % 20);
    script.run(200, false);
    evicted += script.evicted();
    script.finish();
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(evicted, 100u) << "the store was never under pressure";
}

// Sessions run on threads with one small pool. Every turn compares keys and values with the tokens; sanitizers check
// the rest.
TEST(LruKvCacheStoreThreads, ConcurrentSessionsInASmallPoolKeepTheirRows) {
  const KvLayout layout = KvLayout::make(1, 1, 4, KvDType::kF32);
  KvPagePool pool(layout, 24 * layout.page_bytes());
  LruKvCacheStore store(pool);
  std::atomic<size_t> wrong{0}, unsound{0}, missing{0}, cleared{0}, refused{0}, turns{0};
  const Tokens system = random_tokens(1, 100);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string name_space(1, static_cast<char>('a' + t % 2));
      std::mt19937_64 rng(t);
      for (int i = 0; i < 60; ++i) {
        const Tokens prompt = concat(system, random_tokens(rng() % 8, 1 + rng() % 150, 3));
        PrefixHit hit = store.find_longest_prefix(name_space, TokenSpan(prompt).first(prompt.size() - 1));
        if (!feed(hit.entry, TokenSpan(prompt).subspan(hit.length())).ok() ||
            !store.insert(name_space, hit.entry).ok()) {
          ++refused;
          continue;
        }
        const Result<PrefixPin> pin = store.pin(name_space, prompt);
        if (!pin.ok()) ++missing;
        if (read_rows(hit.entry) != fresh_rows(layout, prompt)) ++wrong;
        if (i % 16 == 0) store.evict(2);
        if (i % 32 == 31 && t == 0) {
          ++cleared;
          store.clear(name_space);
        }
        if (i % 8 == 0 && !validate_store(store.snapshot()).empty()) ++unsound;
        ++turns;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(unsound, 0u);
  EXPECT_LE(missing, cleared) << "held pages are stored, unless cleared between insert and pin";
  EXPECT_GT(turns, 100u) << refused << " refused";
  EXPECT_LE(pool.peak_bytes(), pool.budget_bytes());
  EXPECT_THAT(validate_store(store.snapshot()), IsEmpty());
  store.evict(100);
  EXPECT_EQ(pool.pages_in_use(), 0u);
}

}  // namespace
}  // namespace ibid
