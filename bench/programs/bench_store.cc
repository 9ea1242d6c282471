// Cost of prefix lookup in a turn: find_longest_prefix() on a warm store, and insert() after a turn.
// Most pages are small here, because the cost of a lookup does not depend on their contents.
//   bench_store [--benchmark_filter=...]
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "base/check.h"
#include "cache/store/lru_kv_cache_store.h"
#include "kernels/ops/dispatch.h"

namespace ibid {
namespace {

constexpr const char* kUser = "user";

Tokens random_tokens(uint64_t seed, size_t n) {
  std::mt19937_64 rng(seed);
  Tokens tokens(n);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng() % 50000);
  return tokens;
}

void feed(KvCacheEntry& entry, TokenSpan tokens) {
  const KvLayout& layout = entry.layout();
  CHECK(entry.reserve(tokens.size()).ok());
  const std::vector<float> rows(tokens.size() * layout.layer(0).kv_dim() + 16, 1.0f);
  Barrier barrier(1);
  const Worker worker(0, 1, barrier);
  for (size_t layer = 0; layer < layout.n_layers(); ++layer) {
    entry.append(worker, kernels_for(Isa::kRef), layer, rows.data(), rows.data(), layout.layer(layer).kv_dim(),
                 tokens.size());
  }
  entry.commit(tokens);
}

// A store with n_entries conversations of n_tokens that share a system prompt of 1000 tokens.
struct Warm {
  Warm(size_t n_entries, size_t n_tokens)
      : pool(KvLayout::make(1, 1, 4, KvDType::kInt8), size_t{8} << 30), store(pool) {
    const Tokens system = random_tokens(0, 1000);
    for (size_t i = 0; i < n_entries; ++i) {
      Tokens tokens = random_tokens(i + 1, n_tokens);
      std::copy(system.begin(), system.end(), tokens.begin());
      KvCacheEntry entry = store.find_longest_prefix(kUser, tokens).entry;
      feed(entry, TokenSpan(tokens).subspan(entry.length()));
      CHECK(store.insert(kUser, entry).ok());
      if (i == n_entries / 2) wanted = tokens;
    }
  }
  KvPagePool pool;
  LruKvCacheStore store;
  Tokens wanted;
};

void hit(benchmark::State& state) {
  const auto n_tokens = static_cast<size_t>(state.range(0));
  Warm warm(static_cast<size_t>(state.range(1)), n_tokens);
  const TokenSpan ids = TokenSpan(warm.wanted).first(n_tokens - 1);
  const PrefixTree::Work before = warm.store.work();
  size_t length = 0;
  for (auto _ : state) {
    const PrefixHit found = warm.store.find_longest_prefix(kUser, ids);
    length = found.length();
  }
  CHECK_EQ(length, n_tokens - 1);
  const PrefixTree::Work after = warm.store.work();
  const auto per_call = [&](size_t n) { return static_cast<double>(n) / static_cast<double>(state.iterations()); };
  state.counters["compared"] = per_call(after.tokens_compared - before.tokens_compared);
  state.counters["pages"] = per_call(after.pages_touched - before.pages_touched);
}
BENCHMARK(hit)
    ->ArgNames({"tokens", "entries"})
    ->ArgsProduct({{4000, 32000}, {1, 100, 1000}})
    ->Unit(benchmark::kMicrosecond);

// Returns the layout of SmolLM2-135M with keys and values in 8 bits; a page has 0.75 MiB.
KvLayout smollm2() { return KvLayout::make(30, 3, 64, KvDType::kInt8); }

// Looks up 3,999 of 4,000 cached tokens and reserves one position, which copies the partial last page. These are all
// steps of a turn before the forward pass.
void warm_turn(benchmark::State& state) {
  KvPagePool pool(smollm2(), size_t{1} << 30);
  LruKvCacheStore store(pool);
  const Tokens tokens = random_tokens(1, 4000);
  {
    KvCacheEntry entry(pool);
    CHECK(entry.adopt(pool.allocate(KvLayout::pages_for(4000)).value(), tokens).ok());
    CHECK(store.insert(kUser, entry).ok());
  }
  for (auto _ : state) {
    PrefixHit found = store.find_longest_prefix(kUser, TokenSpan(tokens).first(3999));
    CHECK_EQ(found.length(), size_t{3999});
    CHECK(found.entry.reserve(1).ok());
    state.PauseTiming();
    found.entry = KvCacheEntry(pool);
    state.ResumeTiming();
  }
  state.counters["bytes_copied"] = static_cast<double>(pool.bytes_copied()) / static_cast<double>(state.iterations());
}
BENCHMARK(warm_turn)->Unit(benchmark::kMicrosecond);

// Measures freeing a page, which zeroes it, and allocating one, which does not.
void free_page(benchmark::State& state) {
  KvPagePool pool(smollm2(), size_t{1} << 30);
  std::vector<KvPage> held = pool.allocate(300).value();  // more than the processor's caches can hold
  size_t i = 0;
  for (auto _ : state) {
    held[i] = KvPage();
    state.PauseTiming();
    held[i] = pool.allocate().value();
    i = (i + 1) % held.size();
    state.ResumeTiming();
  }
}
BENCHMARK(free_page)->Unit(benchmark::kMicrosecond);

void allocate_page(benchmark::State& state) {
  KvPagePool pool(smollm2(), size_t{1} << 30);
  { const std::vector<KvPage> used = pool.allocate(300).value(); }
  for (auto _ : state) {
    KvPage page = pool.allocate().value();
    state.PauseTiming();
    page = KvPage();
    state.ResumeTiming();
  }
}
BENCHMARK(allocate_page)->Unit(benchmark::kMicrosecond);

void miss(benchmark::State& state) {
  Warm warm(static_cast<size_t>(state.range(0)), 4000);
  const Tokens other = random_tokens(1u << 20, 4000);
  for (auto _ : state) {
    benchmark::DoNotOptimize(warm.store.find_longest_prefix(kUser, other).length());
  }
}
BENCHMARK(miss)->ArgName("entries")->Arg(1)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

// Measures insert() after a turn of 64 tokens, for different lengths of the history.
void insert_turn(benchmark::State& state) {
  KvPagePool pool(KvLayout::make(1, 1, 4, KvDType::kInt8), size_t{8} << 30);
  LruKvCacheStore store(pool);
  KvCacheEntry session(pool);
  const auto history = static_cast<size_t>(state.range(0));
  feed(session, random_tokens(1, history));
  CHECK(store.insert(kUser, session).ok());
  uint64_t turn = 1;
  for (auto _ : state) {
    state.PauseTiming();
    // Remove the previous turn, so that the history has the same length every time.
    session.slice_to_length(history);
    feed(session, random_tokens(++turn, 64));
    state.ResumeTiming();
    CHECK(store.insert(kUser, session).ok());
  }
}
BENCHMARK(insert_turn)->ArgName("history")->Arg(1000)->Arg(32000)->Iterations(2000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ibid

BENCHMARK_MAIN();
