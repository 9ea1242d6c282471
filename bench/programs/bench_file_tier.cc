// Costs of the file tier: reading a history, the part of writing that blocks the caller, writing in the background, and
// opening an existing directory. Pages are those of SmolLM2-135M with F16 keys and values (1.41 MiB). Files are in the
// OS page cache.
//   bench_file_tier [--benchmark_filter=...]           creates a directory in $TMPDIR
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "base/check.h"
#include "cache/tier/file_tier.h"

namespace ibid {
namespace {

Tokens random_tokens(uint64_t seed, size_t n) {
  std::mt19937_64 rng(seed);
  Tokens tokens(n);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng() % 50000);
  return tokens;
}

// Returns a KvCacheEntry of these tokens, with random bytes in its pages.
KvCacheEntry entry_of(KvPagePool& pool, TokenSpan tokens) {
  std::vector<KvPage> pages = *pool.allocate(KvLayout::pages_for(tokens.size()));
  std::mt19937_64 rng(7);
  for (KvPage& page : pages) {
    for (size_t i = 0; i < pool.layout().page_bytes(); i += sizeof(uint64_t)) {
      const uint64_t bits = rng();
      std::memcpy(page.data() + i, &bits, sizeof bits);
    }
  }
  KvCacheEntry entry(pool);
  CHECK(entry.adopt(std::move(pages), tokens).ok());
  return entry;
}

struct Tier {
  explicit Tier(const KvLayout& layout, bool durable = false, uint64_t eager_bytes_per_s = 0)
      : pool(layout, size_t{1} << 30),
        directory(std::filesystem::temp_directory_path() / ("ibid_bench_tier_" + std::to_string(::getpid()))),
        options{.directory = directory,
                .fingerprint = {},
                .budget_bytes = uint64_t{8} << 30,
                .durable = durable,
                .waiting_budget_bytes = size_t{1} << 30,
                .eager_bytes_per_s = eager_bytes_per_s},
        tier(*FileTier::open(options, pool)) {}
  ~Tier() {
    tier.reset();
    std::filesystem::remove_all(directory);
  }
  void write(TokenSpan tokens) {
    tier->write_behind("", entry_of(pool, tokens));
    const Status status = tier->flush();
    CHECK(status.ok()) << status.to_string();
  }

  KvPagePool pool;
  std::filesystem::path directory;
  FileTierOptions options;
  std::unique_ptr<FileTier> tier;
};

const KvLayout kSmolLm2 = KvLayout::make(30, 3, 64, KvDType::kF16);
const KvLayout kTiny = KvLayout::make(1, 1, 16, KvDType::kInt8);

void extend(benchmark::State& state) {
  Tier tier(kSmolLm2);
  const Tokens ids = random_tokens(1, static_cast<size_t>(state.range(0)));
  tier.write(ids);
  for (auto _ : state) {
    KvCacheEntry entry(tier.pool);
    CHECK_EQ(tier.tier->extend("", ids, entry), ids.size());
  }
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * KvLayout::pages_for(ids.size()) * kSmolLm2.page_bytes()));
}
BENCHMARK(extend)->Arg(500)->Arg(4000)->Unit(benchmark::kMillisecond);

void miss(benchmark::State& state) {
  Tier tier(kSmolLm2);
  const Tokens ids = random_tokens(1, 4000), others = random_tokens(2, 4000);
  tier.write(ids);
  for (auto _ : state) {
    KvCacheEntry entry(tier.pool);
    CHECK_EQ(tier.tier->extend("", others, entry), 0u);
  }
}
BENCHMARK(miss)->Unit(benchmark::kMicrosecond);

// Measures write_behind() itself, for a turn of a conversation whose history is on disk already.
void hand_over_a_turn(benchmark::State& state) {
  Tier tier(kSmolLm2);
  const Tokens ids = random_tokens(1, static_cast<size_t>(state.range(0)));
  tier.write(TokenSpan(ids).first(ids.size() - 10));
  const KvCacheEntry entry = entry_of(tier.pool, ids);
  for (auto _ : state) tier.tier->write_behind("", entry);
  static_cast<void>(tier.tier->flush());
}
BENCHMARK(hand_over_a_turn)->Arg(500)->Arg(4000)->Unit(benchmark::kMicrosecond);

void write(benchmark::State& state) {
  Tier tier(kSmolLm2, state.range(0) != 0);
  uint64_t seed = 0;
  for (auto _ : state) {
    const KvCacheEntry entry = [&] {
      state.PauseTiming();
      KvCacheEntry made = entry_of(tier.pool, random_tokens(++seed, 1024));
      state.ResumeTiming();
      return made;
    }();
    tier.tier->write_behind("", entry);
    CHECK(tier.tier->flush().ok());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * 16 * kSmolLm2.page_bytes()));
}
BENCHMARK(write)->ArgName("durable")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(5);

// Share of the whole pages of a turn that are stored 5 s after its end. Start processes that use all processors before.
void stored_after_5s(benchmark::State& state) {
  constexpr size_t kPages = 31;
  Tier tier(kSmolLm2, true, static_cast<uint64_t>(state.range(0)) * 1'000'000);
  uint64_t seed = 0;
  size_t n_stored = 0;
  for (auto _ : state) {
    const size_t n_before = tier.tier->stats().pages_written;
    tier.tier->write_behind("", entry_of(tier.pool, random_tokens(++seed, kPages * kPagePositions)));
    std::this_thread::sleep_for(std::chrono::seconds(5));
    n_stored += tier.tier->stats().pages_written - n_before;
    static_cast<void>(tier.tier->flush());
  }
  state.counters["percent"] = 100.0 * static_cast<double>(n_stored) / static_cast<double>(kPages * state.iterations());
}
BENCHMARK(stored_after_5s)
    ->ArgName("MB/s")
    ->Arg(0)
    ->Arg(100)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(5);

void take_over(benchmark::State& state) {
  Tier tier(kTiny);
  for (int64_t i = 0; i < state.range(0) / 50; ++i)
    tier.write(random_tokens(static_cast<uint64_t>(i), size_t{50} * 64));
  for (auto _ : state) {
    tier.tier.reset();
    tier.tier = *FileTier::open(tier.options, tier.pool);
    CHECK_EQ(tier.tier->stats().pages, static_cast<size_t>(state.range(0)));
  }
}
BENCHMARK(take_over)->ArgName("files")->Arg(1000)->Arg(5000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ibid

BENCHMARK_MAIN();
