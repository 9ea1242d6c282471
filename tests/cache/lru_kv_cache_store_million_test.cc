// A million random calls on a small store, in shards that run in parallel; the validator runs after each call. Compares
// lookups with an exhaustive search of the snapshot, which takes evictions into account, and with all insertions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/reference/lru_twin.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::IsEmpty;

constexpr size_t kCallsPerShard = 62500;
constexpr uint64_t kShards = 16;

// Returns the longest common prefix with any path of the tree, by exhaustive search.
size_t naive_longest_prefix(const StoreSnapshot& store, const std::string& name_space, TokenSpan ids) {
  uint64_t space = 0;
  for (const StoreSnapshot::Space& known : store.spaces) {
    if (known.name == name_space) space = known.id;
  }
  std::map<uint64_t, const StoreSnapshot::Node*> by_serial;
  for (const StoreSnapshot::Node& node : store.nodes) by_serial[node.serial] = &node;
  size_t longest = 0;
  for (const StoreSnapshot::Node& last : store.nodes) {
    if (last.space != 0 && last.space != space) continue;
    std::vector<const StoreSnapshot::Node*> path;
    for (uint64_t serial = last.serial; serial != 0; serial = path.back()->parent) path.push_back(by_serial.at(serial));
    size_t n = 0;
    for (; !path.empty(); path.pop_back()) {
      size_t common = 0;
      const Tokens& page = path.back()->ids;
      while (common < page.size() && n + common < ids.size() && page[common] == ids[n + common]) ++common;
      n += common;
      if (common < kPagePositions) break;
    }
    longest = std::max(longest, n);
  }
  return longest;
}

class Story {
 public:
  Story(uint64_t seed, size_t budget_pages)
      : rng_(seed),
        pool_(layout_, (budget_pages + 6) * layout_.page_bytes()),
        store_(pool_, budget_pages * LruKvCacheStore(pool_, 0).page_charge_bytes()) {}

  void run(size_t n_calls) {
    for (size_t i = 0; i < n_calls && !testing::Test::HasFatalFailure(); ++i) {
      one_call();
      ASSERT_THAT(validate_store(store_.snapshot()), IsEmpty()) << "call " << i;
    }
    pins_.clear();
    entries_.clear();
    store_.evict(1000);
    EXPECT_EQ(pool_.pages_in_use(), 0u);
    EXPECT_EQ(store_.charge_bytes(), 0u);
  }

  const LruKvCacheStore& store() const { return store_; }
  size_t repeats = 0;

 private:
  struct Live {
    std::string name_space;
    KvCacheEntry entry;
  };

  size_t below(size_t n) { return static_cast<size_t>(rng_() % n); }
  std::string any_space() { return std::string(1, static_cast<char>('a' + below(3))); }

  // Uses two token values, so that sequences share prefixes. Many sequences end inside a page, some at its end.
  Tokens any_prompt() {
    Tokens prompt(base_.begin(), base_.begin() + static_cast<ptrdiff_t>(below(3) == 0 ? 64 * below(3) : below(170)));
    const size_t n = below(4);
    for (size_t i = 0; i < n; ++i) prompt.push_back(static_cast<TokenId>(below(2)));
    if (!prompt.empty() && below(3) == 0) prompt[below(prompt.size())] ^= 1;
    return prompt;
  }

  void one_call() {
    switch (below(12)) {
      case 0:
      case 1:
      case 2: return look();
      case 3:
      case 4: return insert();
      case 5: return grow();
      case 6: return remember();
      case 7: return fork_or_slice();
      case 8: return pin();
      case 9: return end();
      case 10: store_.evict(below(3)); return;
      default: clear();
    }
  }

  void look() {
    const std::string name_space = any_space();
    const Tokens ids = any_prompt();
    const size_t expected = naive_longest_prefix(store_.snapshot(), name_space, ids);
    PrefixHit hit = store_.find_longest_prefix(name_space, ids);
    ASSERT_EQ(hit.length(), expected);
    ASSERT_LE(hit.length(), twin_.longest_prefix(name_space, ids));
    ASSERT_TRUE(std::equal(hit.entry.tokens().begin(), hit.entry.tokens().end(), ids.begin()));
    if (hit.logits != nullptr) {
      ASSERT_EQ(hit.length(), ids.size());
      ASSERT_EQ(*hit.logits, logits_of(ids));
      ++repeats;
    }
    if (entries_.size() < 5) entries_.push_back({name_space, std::move(hit.entry)});
  }

  static std::vector<float> logits_of(TokenSpan ids) {
    float sum = 0;
    for (const TokenId id : ids) sum = sum * 0.5f + static_cast<float>(id);
    return {static_cast<float>(ids.size()), sum};
  }

  // Appends tokens without keys and values, because other tests check the contents of pages.
  Status append(KvCacheEntry& entry, TokenSpan ids) {
    TRY_ASSIGN(std::vector<KvPage> pages,
               pool_.allocate(KvLayout::pages_for(entry.length() + ids.size()) - entry.length() / kPagePositions));
    const Tokens tokens = concat(entry.tokens(), ids);
    std::vector<KvPage> all(entry.pages().begin(),
                            entry.pages().begin() + static_cast<ptrdiff_t>(entry.length() / kPagePositions));
    for (KvPage& page : pages) all.push_back(std::move(page));
    entry = KvCacheEntry(pool_);
    return entry.adopt(std::move(all), tokens);
  }

  void insert() {
    if (entries_.empty()) return;
    Live& live = entries_[below(entries_.size())];
    InsertOptions options;
    if (below(6) == 0) options.sharing = Sharing::kShared;
    if (below(4) == 0) options.extent = Extent::kFullPages;
    if (below(6) == 0) options.retention = Retention::kPrefix;
    const Status status = store_.insert(live.name_space, live.entry, options);
    if (status.ok()) {
      twin_.insert(live.name_space, live.entry.tokens(), options.sharing == Sharing::kShared);
    }
    if (++n_inserted_ % 64 == 0) forget();
  }

  // Clears everything from time to time, because the reference searches all insertions and becomes slow.
  void forget() {
    pins_.clear();
    for (const char* name : {"a", "b", "c"}) store_.clear(name);
    store_.clear_shared();
    twin_ = LruReference();
    entries_.clear();
  }

  void grow() {
    const Tokens prompt = any_prompt();
    if (entries_.size() < 5) entries_.push_back({any_space(), KvCacheEntry(pool_)});
    KvCacheEntry& entry = entries_[below(entries_.size())].entry;
    if (entry.length() + prompt.size() < 250) (void)append(entry, prompt);
  }

  void remember() {
    const std::string name_space = any_space();
    const Tokens ids = any_prompt();
    const bool is_stored = !ids.empty() && naive_longest_prefix(store_.snapshot(), name_space, ids) == ids.size();
    const ErrorCode code = store_.remember_logits(name_space, ids, logits_of(ids)).code();
    if (code == ErrorCode::kOk) {
      ASSERT_TRUE(is_stored);
      ASSERT_NE(store_.find_longest_prefix(name_space, ids).logits, nullptr);
    } else if (code == ErrorCode::kNotFound) {
      ASSERT_FALSE(is_stored);
    } else {
      ASSERT_EQ(code, ErrorCode::kOutOfMemory);
    }
  }

  void fork_or_slice() {
    if (entries_.empty()) return;
    const size_t i = below(entries_.size());
    if (below(2) == 0 && entries_.size() < 5) {
      entries_.push_back({entries_[i].name_space, entries_[i].entry.fork().value()});
    } else {
      entries_[i].entry.slice_to_length(below(entries_[i].entry.length() + 1));
    }
  }

  void pin() {
    Result<PrefixPin> pin = store_.pin(any_space(), any_prompt());
    if (pin.ok()) pins_.push_back(std::move(*pin));
    if (pins_.size() > 2) pins_.erase(pins_.begin());
  }

  void end() {
    if (!entries_.empty()) entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(below(entries_.size())));
  }

  void clear() {
    if (below(20) == 0) {
      store_.clear_shared();
    } else if (below(8) == 0) {
      const std::string name_space = any_space();
      store_.clear(name_space);
      twin_.clear(name_space);
    }
  }

  const KvLayout layout_ = KvLayout::make(1, 1, 4, KvDType::kInt8);
  const Tokens base_ = random_tokens(1, 170, 2);
  std::mt19937_64 rng_;
  KvPagePool pool_;
  LruKvCacheStore store_;
  LruReference twin_;
  std::vector<Live> entries_;
  std::vector<PrefixPin> pins_;
  size_t n_inserted_ = 0;
};

class StoreMillionCalls : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, StoreMillionCalls, testing::Range<uint64_t>(0, kShards));

TEST_P(StoreMillionCalls, StoreStaysValidAndLookupsAreExact) {
  Story story(1000 + GetParam(), 6 + GetParam());
  story.run(kCallsPerShard);
  EXPECT_GT(story.store().stats().hits, 1000u);
  EXPECT_GT(story.store().stats().evicted_pages, 1000u);
  EXPECT_GT(story.repeats, 10u);
}

}  // namespace
}  // namespace ibid
