// Costs of a store that nodes share: processor time of this process for a record, and a look-up of a whole history.
// The server is that of IBID_BENCH_SERVER (unix:/tmp/redis.sock). Records are pages of SmolLM2-135M with INT8 keys and
// values (0.75 MiB). The column CPU is the time of this thread; the server's is not in it.
//   IBID_BENCH_SERVER=URL bench_shared_store [--benchmark_filter=...]
#include <benchmark/benchmark.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/check.h"
#include "cache/tier/record_tier.h"
#include "cache/tier/resp_store.h"
#include "net/shared_server.h"

namespace ibid {
namespace {

const KvLayout kSmolLm2 = KvLayout::make(30, 3, 64, KvDType::kInt8);

std::shared_ptr<net::SharedServer> connect(bool has_key) {
  const char* url = std::getenv("IBID_BENCH_SERVER");
  CHECK(url != nullptr) << "IBID_BENCH_SERVER is not set";
  std::string key_file;
  if (has_key) {
    key_file = std::filesystem::temp_directory_path() / ("ibid_bench_key_" + std::to_string(::getpid()));
    std::ofstream(key_file) << std::string(64, 'c') << '\n';
    ::chmod(key_file.c_str(), 0600);
  }
  auto server = net::SharedServer::open(url, key_file);
  CHECK(server.ok()) << server.status().to_string();
  const Status status = (*server)->connections().try_now();
  CHECK(status.ok()) << status.to_string();
  if (has_key) std::filesystem::remove(key_file);
  return *server;
}

std::vector<std::byte> random_bytes(size_t n) {
  std::vector<std::byte> bytes(n);
  std::mt19937_64 rng(7);
  for (size_t i = 0; i + 8 <= n; i += 8) {
    const uint64_t bits = rng();
    std::memcpy(bytes.data() + i, &bits, sizeof bits);
  }
  return bytes;
}

PageName numbered(size_t i) {
  PageName name;
  std::memcpy(name.bytes.data(), &i, sizeof i);
  return name;
}

constexpr size_t kRecords = 31;  // a history of 1,984 tokens

void put(benchmark::State& state) {
  RespStore store(connect(state.range(0) == 1), most_record_bytes(kSmolLm2));
  const std::vector<std::byte> header = random_bytes(1024), rows = random_bytes(kSmolLm2.page_bytes());
  const std::span<const std::byte> pieces[] = {header, rows};
  size_t i = 0;
  for (auto _ : state) {
    const Status status = store.put(numbered(i++ % kRecords), pieces, true);
    CHECK(status.ok()) << status.to_string();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * rows.size()));
}
BENCHMARK(put)->ArgName("key")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

// The time of all records, in windows.
void get(benchmark::State& state) {
  RespStore store(connect(state.range(0) == 1), kSmolLm2.page_bytes() + 1024);
  const std::vector<std::byte> rows = random_bytes(kSmolLm2.page_bytes());
  const std::span<const std::byte> pieces[] = {rows};
  std::vector<PageName> names;
  for (size_t i = 0; i < kRecords; ++i) {
    names.push_back(numbered(i));
    CHECK(store.put(names.back(), pieces, true).ok());
  }
  for (auto _ : state) {
    const ReadLimits limits;
    ReadTimer timer(limits, system_clock());
    size_t n = 0;
    CHECK(store
              .get(names, timer,
                   [&](size_t, std::span<const std::byte> record) {
                     CHECK_EQ(record.size(), rows.size());
                     timer.page_came();
                     return ++n > 0;
                   })
              .ok());
    CHECK_EQ(n, kRecords);
  }
  state.counters["cpu_us_per_record"] = benchmark::Counter(static_cast<double>(state.iterations() * kRecords) / 1e6,
                                                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kRecords * rows.size()));
}
BENCHMARK(get)->ArgName("key")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// A look-up as a turn makes it: verified pages in an entry.
void extend(benchmark::State& state) {
  KvPagePool pool(kSmolLm2, size_t{1} << 28);
  const auto store = std::make_shared<RespStore>(connect(state.range(0) == 1), most_record_bytes(kSmolLm2));
  RecordTier tier({.waiting_budget_bytes = size_t{1} << 28}, store, pool, system_clock());
  Tokens tokens(kRecords * kPagePositions);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7919 % 49152);
  {
    std::vector<KvPage> pages = *pool.allocate(kRecords);
    const std::vector<std::byte> rows = random_bytes(kSmolLm2.page_bytes());
    for (KvPage& page : pages) std::memcpy(page.data(), rows.data(), rows.size());
    KvCacheEntry entry(pool);
    CHECK(entry.adopt(std::move(pages), tokens).ok());
    tier.write_behind("", entry);
    const Status status = tier.flush();
    CHECK(status.ok()) << status.to_string();
  }
  for (auto _ : state) {
    KvCacheEntry entry(pool);
    CHECK_EQ(tier.extend("", tokens, entry), tokens.size());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kRecords * kSmolLm2.page_bytes()));
}
BENCHMARK(extend)->ArgName("key")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ibid

BENCHMARK_MAIN();
