// Random calls on a small store whose model has layers of every kind: full attention, windows, recurrent. The validator
// runs after each call. Compares lookups with an exhaustive search of the snapshot, which takes evictions of pages and
// window parts into account, and with a naive reference, which has all insertions. KV and states of hits must equal a
// cold pass. In one shard of four the pool is never short: there, all insertions must be found.
//
// IBID_STORE_CALLS sets the number of calls in all shards together; the seeds are fixed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/token_prefix.h"
#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/reference/lru_twin.h"
#include "tests/reference/retained_twin.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::IsEmpty;

constexpr uint64_t kGroupShards = 16;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kCallsInAll = 8'000;
#else
constexpr size_t kCallsInAll = 48'000;
#endif

size_t calls_in_all() {
  const char* value = std::getenv("IBID_STORE_CALLS");
  return value != nullptr && *value != '\0' ? std::strtoull(value, nullptr, 10) : kCallsInAll;
}

// kind: 0: windows; 1: recurrent layers; 2: both.
KvLayout layout_with(uint64_t kind) {
  std::vector<KvRowShape> rows = {{1, 2, 0}};
  if (kind != 1) rows.insert(rows.begin(), KvRowShape{1, 2, 70});
  const std::vector<StateShape> states = {{3, 2}, {5, 1}};
  return KvLayout::make(rows, KvDType::kF32, std::span(states).first(kind == 0 ? 0 : 2));
}

// Returns the possible results of a lookup, by exhaustive search. If several paths share the maximum number of tokens
// with the wanted ones, a lookup may return any of them.
class NaiveSearch {
 public:
  NaiveSearch(const StoreSnapshot& store, const KvLayout& layout, const std::string& name_space, TokenSpan ids)
      : store_(store), layout_(layout), ids_(ids) {
    for (const StoreSnapshot::Space& known : store.spaces) {
      if (known.name == name_space) space_ = known.id;
    }
    for (const StoreSnapshot::Node& node : store.nodes) by_serial_[node.serial] = &node;
  }

  std::set<size_t> lengths() const {
    std::set<size_t> found;
    size_t longest = 0;
    for (const StoreSnapshot::Node& last : store_.nodes) {
      if (last.space != 0 && last.space != space_) continue;
      const std::vector<const StoreSnapshot::Node*> path = path_to(last);
      const size_t n = shared_ids(path);
      if (n < longest || n == 0) continue;
      if (n > longest) found.clear();
      longest = n;
      found.insert(reach(path, n));
    }
    if (found.empty()) found.insert(0);
    return found;
  }

 private:
  using Path = std::vector<const StoreSnapshot::Node*>;

  Path path_to(const StoreSnapshot::Node& last) const {
    Path path;
    for (uint64_t serial = last.serial; serial != 0; serial = path.front()->parent) {
      path.insert(path.begin(), by_serial_.at(serial));
    }
    return path;
  }
  size_t shared_ids(const Path& path) const {
    size_t n = 0;
    for (const StoreSnapshot::Node* node : path) {
      const size_t same = common_prefix_length(node->ids, ids_.subspan(n));
      n += same;
      if (same < kPagePositions) break;
    }
    return n;
  }
  // Returns the last position up to n at which states and window parts of the path allow resuming.
  size_t reach(const Path& path, size_t n) const {
    for (; n > 0; --n) {
      if (has_state(n) && has_windows(path, n)) return n;
    }
    return 0;
  }
  bool has_state(size_t n) const {
    if (layout_.n_states() == 0) return true;
    for (const StoreSnapshot::State& state : store_.states) {
      if (state.space != 0 && state.space != space_) continue;
      if (state.ids.size() > n || common_prefix_length(state.ids, ids_) < state.ids.size()) continue;
      if (state.ids.size() == n) return true;
      for (const Tokens& tail : state.tails) {
        if (state.ids.size() + common_prefix_length(tail, ids_.subspan(state.ids.size())) >= n) return true;
      }
    }
    return false;
  }
  bool has_windows(const Path& path, size_t n) const {
    for (size_t i = layout_.first_window_page(n); i < KvLayout::pages_for(n); ++i) {
      if (!path[i]->has_window) return false;
    }
    return true;
  }

  const StoreSnapshot& store_;
  const KvLayout& layout_;
  const TokenSpan ids_;
  uint64_t space_ = 0;
  std::map<uint64_t, const StoreSnapshot::Node*> by_serial_;
};

class GroupStory {
 public:
  // budget_pages 0: the pool is never short.
  GroupStory(uint64_t seed, uint64_t kind, size_t budget_pages)
      : layout_(layout_with(kind)),
        rng_(seed),
        is_roomy_(budget_pages == 0),
        pool_(layout_,
              is_roomy_ ? size_t{256} << 20 : budget_pages * layout_.page_bytes() + 24 * layout_.state_bytes()),
        store_(pool_) {}

  void run(size_t n_calls) {
    for (size_t i = 0; i < n_calls && !testing::Test::HasFatalFailure(); ++i) {
      SCOPED_TRACE(testing::Message() << "call " << i);
      one_call();
      ASSERT_THAT(validate_store(store_.snapshot()), IsEmpty());
      ASSERT_LE(pool_.bytes_in_use(), pool_.budget_bytes());
      ASSERT_LE(store_.state_bytes(), pool_.budget_bytes() / 2);
    }
    at_rest_.clear();
    sessions_.clear();
    forget();
    EXPECT_EQ(pool_.bytes_in_use(), 0u);
    EXPECT_EQ(store_.n_states(), 0u);
  }

  const LruKvCacheStore& store() const { return store_; }
  size_t n_shortened = 0;  // hits shortened by a missing state or window part
  size_t n_retained = 0;   // hits that the store with enough memory had to find

 private:
  struct Session {
    std::string name_space;
    KvCacheEntry entry;
  };
  struct Resting {
    std::string name_space;
    IdleSequence rest;
    bool is_cleared = false;  // true if its mark was removed with its namespace, so that the store cannot resume it
  };

  size_t below(size_t n) { return static_cast<size_t>(rng_() % n); }
  std::string any_space() { return std::string(1, static_cast<char>('a' + below(2))); }

  // Returns a text that shares a prefix with others; some end at a page boundary.
  Tokens any_prompt() {
    const size_t n = below(4) == 0 ? 64 * below(9) : below(560);
    Tokens prompt(base_.begin(), base_.begin() + static_cast<ptrdiff_t>(n));
    if (!prompt.empty() && below(3) == 0) prompt[below(prompt.size())] ^= 1;
    for (size_t i = below(5); i > 0; --i) prompt.push_back(static_cast<TokenId>(below(2)));
    return prompt;
  }

  void one_call() {
    switch (below(12)) {
      case 0:
      case 1:
      case 2: return start();
      case 3:
      case 4: return grow();
      case 5:
      case 6: return insert();
      case 7: return fork_or_slice();
      case 8: return rest();
      case 9: return wake();
      case 10: return press();
      default: return end_or_clear();
    }
  }

  void expect_exact(const KvCacheEntry& entry) {
    ASSERT_EQ(read_states(entry), fresh_states(layout_, entry.tokens()));
    if (below(4) == 0) {
      ASSERT_EQ(read_rows(entry), fresh_rows(layout_, entry.tokens()));
    }
  }

  void start() {
    const std::string name_space = any_space();
    const Tokens ids = any_prompt();
    const StoreSnapshot before = store_.snapshot();
    const std::set<size_t> expected = NaiveSearch(before, layout_, name_space, ids).lengths();
    PrefixHit hit = store_.find_longest_prefix(name_space, ids);
    ASSERT_TRUE(expected.contains(hit.length())) << hit.length() << " of " << testing::PrintToString(expected);
    if (is_roomy_) {
      const size_t wanted = retained_.must_find(name_space, ids, layout_.n_states() > 0);
      ASSERT_GE(hit.length(), wanted) << "an inserted sequence is lost";
      n_retained += wanted > 0 ? 1 : 0;
    }
    const size_t ever = twin_.longest_prefix(name_space, ids);
    ASSERT_LE(hit.length(), ever);
    n_shortened += hit.length() > 0 && hit.length() < ever ? 1 : 0;
    ASSERT_TRUE(std::equal(hit.entry.tokens().begin(), hit.entry.tokens().end(), ids.begin()));
    ASSERT_NO_FATAL_FAILURE(expect_exact(hit.entry));
    if (sessions_.size() < 4) sessions_.push_back({name_space, std::move(hit.entry)});
  }

  void grow() {
    if (sessions_.empty()) return start();
    KvCacheEntry& entry = sessions_[below(sessions_.size())].entry;
    if (entry.length() > 700) return;
    for (size_t n_passes = 1 + below(3); n_passes > 0; --n_passes) {
      const size_t n = 1 + below(below(3) == 0 ? 150 : 12);
      const size_t at = entry.length();
      // Most tokens are those of the common text.
      Tokens ids = random_tokens(rng_(), n, 2);
      if (below(4) > 0 && at + n <= base_.size()) {
        std::copy_n(base_.begin() + static_cast<ptrdiff_t>(at), n, ids.begin());
      }
      if (!feed(entry, ids).ok()) break;
      if (below(3) == 0) entry.state().keep_last_pass(entry.length());
      if (below(8) == 0) entry.state().keep_only_here(entry.length());
    }
    ASSERT_NO_FATAL_FAILURE(expect_exact(entry));
  }

  void insert() {
    if (sessions_.empty()) return;
    Session& session = sessions_[below(sessions_.size())];
    InsertOptions options;
    if (below(6) == 0) options.sharing = Sharing::kShared;
    if (below(4) == 0) options.extent = Extent::kFullPages;
    if (below(6) == 0) options.retention = Retention::kPrefix;
    const Status status = store_.insert(session.name_space, session.entry, options);
    if (status.ok()) note_insertion(session, options);
    ASSERT_NO_FATAL_FAILURE(expect_exact(session.entry));
    if (++n_inserted_ % 200 == 0) forget();
  }

  void note_insertion(const Session& session, const InsertOptions& options) {
    twin_.insert(session.name_space, session.entry.tokens(), options.sharing == Sharing::kShared);
    if (is_roomy_) retained_.insert(session.name_space, session.entry, options);
  }

  void fork_or_slice() {
    if (sessions_.empty()) return;
    Session& session = sessions_[below(sessions_.size())];
    if (below(2) == 0 && sessions_.size() < 4) {
      Result<KvCacheEntry> fork = session.entry.fork();
      ASSERT_TRUE(fork.ok());
      sessions_.push_back({session.name_space, *std::move(fork)});
      return;
    }
    const size_t length = session.entry.length();
    const size_t n = below(2) == 0 ? below(length + 1) : length - length / 20;
    const size_t expected = session.entry.resumable_length(n);
    (void)session.entry.slice_to_at_most(n);
    ASSERT_EQ(session.entry.length(), expected);
    ASSERT_NO_FATAL_FAILURE(expect_exact(session.entry));
  }

  void rest() {
    if (sessions_.empty()) return;
    Session session = std::move(sessions_.back());
    sessions_.pop_back();
    IdleSequence rest;
    const Status status = store_.insert(session.name_space, session.entry, {.idle = &rest});
    if (status.ok()) note_insertion(session, {});
    if (!store_.make_idle(session.entry, rest)) return sessions_.push_back(std::move(session));
    at_rest_.push_back({session.name_space, std::move(rest)});
    if (at_rest_.size() > 8) at_rest_.erase(at_rest_.begin() + static_cast<ptrdiff_t>(below(at_rest_.size())));
  }

  void wake() {
    if (at_rest_.empty() || sessions_.size() >= 4) return;
    const size_t i = below(at_rest_.size());
    const Tokens ids(at_rest_[i].rest.tokens().begin(), at_rest_[i].rest.tokens().end());
    KvCacheEntry entry(pool_);
    const bool has_states = layout_.n_states() > 0;
    const bool has_all = is_roomy_ && !at_rest_[i].is_cleared;
    const size_t wanted = has_all ? retained_.must_find(at_rest_[i].name_space, ids, has_states) : 0;
    ASSERT_TRUE(store_.wake(at_rest_[i].rest, entry).ok());
    ASSERT_GE(entry.length(), wanted) << "an idle sequence is lost";
    ASSERT_LE(entry.length(), ids.size());
    ASSERT_TRUE(std::equal(entry.tokens().begin(), entry.tokens().end(), ids.begin()));
    ASSERT_NO_FATAL_FAILURE(expect_exact(entry));
    sessions_.push_back({at_rest_[i].name_space, std::move(entry)});
    at_rest_.erase(at_rest_.begin() + static_cast<ptrdiff_t>(i));
  }

  // Memory pressure: the pool evicts window parts first, then pages and states of the store.
  void press() {
    if (is_roomy_) return;
    if (below(2) == 0) {
      (void)pool_.allocate(1 + below(6));
    } else if (layout_.n_states() > 0) {
      (void)pool_.allocate_states(1 + below(6));
    }
    if (below(8) == 0) store_.evict(below(3));
  }

  void end_or_clear() {
    if (below(24) == 0) {
      store_.clear_shared();
      if (!is_roomy_) return;
      // A page is in one node only, so if two namespaces found the same shared last page, only one can insert it again.
      at_rest_.clear();
      sessions_.clear();
      return retained_.clear_shared();
    }
    if (below(12) == 0) {
      const std::string name_space = any_space();
      store_.clear(name_space);
      twin_.clear(name_space);
      retained_.clear(name_space);
      for (Resting& each : at_rest_) each.is_cleared |= each.name_space == name_space;
    } else if (!sessions_.empty()) {
      sessions_.erase(sessions_.begin() + static_cast<ptrdiff_t>(below(sessions_.size())));
    }
  }

  // Clears everything from time to time, because the reference searches all insertions and becomes slow.
  void forget() {
    at_rest_.clear();
    sessions_.clear();
    for (const char* name : {"a", "b"}) store_.clear(name);
    store_.clear_shared();
    twin_ = LruReference();
    retained_ = RetainedReference();
  }

  const KvLayout layout_;
  const Tokens base_ = random_tokens(1, 560, 2);
  std::mt19937_64 rng_;
  const bool is_roomy_;
  KvPagePool pool_;
  LruKvCacheStore store_;
  LruReference twin_;
  RetainedReference retained_;
  std::vector<Session> sessions_;
  std::vector<Resting> at_rest_;
  size_t n_inserted_ = 0;
};

class StoreGroupsMillionCalls : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, StoreGroupsMillionCalls, testing::Range<uint64_t>(0, kGroupShards));

TEST_P(StoreGroupsMillionCalls, StoreStaysValidAndHitsAreExact) {
  const bool is_roomy = GetParam() % 4 == 3;
  GroupStory story(5000 + GetParam(), GetParam() % 3, is_roomy ? 0 : 14 + GetParam() * 3 % 17);
  const size_t n_calls = calls_in_all() / kGroupShards;
  story.run(n_calls);
  if (n_calls < 400) return;
  EXPECT_GT(story.store().stats().hits, n_calls / 50);
  if (is_roomy) {
    EXPECT_EQ(story.store().stats().evicted_pages, 0u);
    EXPECT_GT(story.n_retained, n_calls / 50);
  } else {
    EXPECT_GT(story.store().stats().evicted_pages, n_calls / 1000);
    EXPECT_GT(story.n_shortened, n_calls / 200) << "neither states nor windows were ever missing";
  }
}

}  // namespace
}  // namespace ibid
