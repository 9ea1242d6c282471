// Sixteen threads use one small store, with all calls of sessions at once and passes cancelled half-way. Every thread
// must read the keys and values of its own tokens, and the store must always be valid; sanitizers check the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::IsEmpty;

struct Counts {
  std::atomic<size_t> wrong{0}, unsound{0}, refused{0}, turns{0}, cancelled{0}, repeats{0}, foreign{0};
};

class Talker {
 public:
  Talker(uint64_t seed, KvPagePool& pool, LruKvCacheStore& store, Counts& counts)
      : rng_(seed),
        name_space_(1, static_cast<char>('a' + seed % 4)),
        // with windows so long that pages leave them
        n_system_(pool.layout().window() > 0 ? 330 : 70),
        pool_(pool),
        store_(store),
        counts_(counts) {}

  void run(int n_turns) {
    for (int i = 0; i < n_turns; ++i) {
      turn();
      if (i % 8 == 0 && !validate_store(store_.snapshot()).empty()) ++counts_.unsound;
      if (i % 16 == 7) store_.evict(2);
      if (i % 32 == 31) below(4) == 0 ? store_.clear_shared() : store_.clear(name_space_);
    }
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(rng_() % n); }

  void turn() {
    Tokens prompt = random_tokens(1 + below(2), n_system_, 9);     // one of two system prompts
    prompt.push_back(static_cast<TokenId>(100 + name_space_[0]));  // a token that only this namespace uses
    const size_t message = below(6);
    prompt = concat(prompt, random_tokens(message, 10 + 23 * message, 3));
    PrefixHit hit = store_.find_longest_prefix(name_space_, prompt);
    if (hit.logits != nullptr) {
      ++counts_.repeats;
      if ((*hit.logits)[0] != static_cast<float>(prompt.size())) ++counts_.wrong;
    }
    KvCacheEntry entry = std::move(hit.entry);
    const TokenSpan rest = TokenSpan(prompt).subspan(entry.length());
    if (below(5) == 0) {
      (void)feed_without_commit(entry, rest, 1);
      ++counts_.cancelled;
    }
    if (!feed_in_passes(entry, rest, 64).ok()) {
      ++counts_.refused;
      return;
    }
    InsertOptions options;
    if (below(4) == 0) options.extent = Extent::kFullPages;
    if (below(8) == 0) options.retention = Retention::kPrefix;
    if (!store_.insert(name_space_, entry, options).ok()) {
      ++counts_.refused;
      return;
    }
    share_system(entry);
    const Result<PrefixPin> pin = store_.pin(name_space_, TokenSpan(prompt).first(64));
    (void)store_.remember_logits(name_space_, prompt, std::vector<float>{static_cast<float>(prompt.size())});
    if (read_states(entry) != fresh_states(pool_.layout(), prompt)) ++counts_.wrong;
    Tokens foreign = prompt;
    foreign[n_system_] = static_cast<TokenId>(100 + 'a' + (name_space_[0] - 'a' + 1) % 4);
    if (store_.find_longest_prefix(name_space_, foreign).length() > n_system_) ++counts_.foreign;
    branch(entry);
    if (read_rows(entry) != fresh_rows(pool_.layout(), prompt)) ++counts_.wrong;
    ++counts_.turns;
  }

  void share_system(const KvCacheEntry& entry) {
    if (below(8) != 0) return;
    KvCacheEntry system = entry.fork().value();
    (void)system.slice_to_at_most(n_system_);
    (void)store_.insert(name_space_, system, Sharing::kShared);
  }

  void branch(const KvCacheEntry& entry) {
    KvCacheEntry other = entry.fork().value();
    (void)other.slice_to_at_most(below(other.length() + 1));
    const Tokens expected = concat(other.tokens(), random_tokens(below(4), 20, 3));
    if (feed(other, TokenSpan(expected).last(20)).ok() && read_rows(other) != fresh_rows(pool_.layout(), expected)) {
      ++counts_.wrong;
    }
  }

  std::mt19937_64 rng_;
  const std::string name_space_;
  const size_t n_system_;
  KvPagePool& pool_;
  LruKvCacheStore& store_;
  Counts& counts_;
};

// Models with and without recurrent layers and windows.
class LruKvCacheStoreThreads : public testing::TestWithParam<TinyKind> {};
INSTANTIATE_TEST_SUITE_P(EveryKind, LruKvCacheStoreThreads, testing::ValuesIn(kEveryTinyKind));

TEST_P(LruKvCacheStoreThreads, SixteenThreadsUseAllCallsConcurrently) {
  const KvLayout layout = tiny_layout(GetParam());
  const size_t n_pages = layout.window() > 0 ? 170 : 90;
  KvPagePool pool(layout, n_pages * layout.page_bytes() + 200 * layout.state_bytes());
  LruKvCacheStore store(pool, n_pages * 2 / 3 * LruKvCacheStore(pool, 0).page_charge_bytes());
  Counts counts;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] { Talker(t, pool, store, counts).run(48); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts.wrong, 0u);
  EXPECT_EQ(counts.unsound, 0u);
  EXPECT_EQ(counts.foreign, 0u) << "private tokens of other namespaces are never found";
  EXPECT_GT(counts.turns, 400u) << counts.refused << " refused";
  EXPECT_GT(counts.cancelled, 50u);
  EXPECT_GT(counts.repeats, 10u);
  EXPECT_LE(pool.peak_bytes(), pool.budget_bytes());
  EXPECT_THAT(validate_store(store.snapshot()), IsEmpty());
  store.evict(1000);
  EXPECT_EQ(pool.pages_in_use(), 0u);
}

}  // namespace
}  // namespace ibid
