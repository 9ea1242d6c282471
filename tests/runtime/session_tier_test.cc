// Engines and sessions use a tier only through its interface: any KvTier works.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "cache/tier/record_tier.h"
#include "tests/cache/memory_store.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/idle_fakes.h"

namespace ibid {
namespace {

const std::string kSystem(300, 'z');

// A process whose engine has its tier on a server.
struct Process : ChatFixture {
  explicit Process(const std::shared_ptr<MemoryStore>& store) : ChatFixture(kChatMl, {}, 64u << 20, parts(store)) {
    say({tokenizer->sampled({"ab"}), tokenizer->sampled({"lo"})});
  }
  static EngineParts parts(const std::shared_ptr<MemoryStore>& store) {
    EngineParts parts;
    parts.open_tier = [store](KvPagePool& pool) -> Result<std::unique_ptr<KvTier>> {
      const Fingerprint fingerprint = FingerprintBuilder().add("model", "one").finish();
      return std::unique_ptr<KvTier>(std::make_unique<RecordTier>(RecordTierOptions{.fingerprint = fingerprint}, store,
                                                                  pool, system_clock(), std::make_unique<NeverIdle>()));
    };
    return parts;
  }
  Turn ask(TurnOptions options = greedy()) {
    ChatSession chat = session({.system = kSystem});
    const Turn turn = must(chat.send("Hello", options));
    expect_replays(chat);
    return turn;
  }
};

TEST(SessionTierTest, AnotherProcessFindsPagesOnServer) {
  const auto store = std::make_shared<MemoryStore>();
  Turn first;
  {
    Process process(store);
    first = process.ask();
    EXPECT_EQ(first.usage.n_cached, 0u);
  }  // the engine flushes
  EXPECT_GT(store->size(), 4u);
  Process process(store);
  const Turn second = process.ask();
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(second.usage.n_cached, second.usage.n_prompt - 1);
  EXPECT_EQ(second.usage.n_from_disk, second.usage.n_cached);
}

TEST(SessionTierTest, UnreachableServerCostsOnlyPrefill) {
  const auto store = std::make_shared<MemoryStore>();
  Turn first;
  {
    Process process(store);
    first = process.ask();
  }
  store->fails = true;
  Process process(store);
  const Turn second = process.ask();
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(second.usage.n_cached, 0u);
  EXPECT_EQ(second.usage.n_prefilled, second.usage.n_prompt);
}

// Records the limits of look-ups, and has nothing.
class WatchedTier : public KvTier {
 public:
  size_t extend(std::string_view, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) override {
    n_missing = ids.size() - entry.length();
    deadline_ns = limits.deadline_ns;
    return 0;
  }
  void write_behind(std::string_view, const KvCacheEntry&) override {}
  Status flush(int64_t) override { return {}; }
  Status clear(std::string_view) override { return {}; }
  KvTierStats stats() const override { return {}; }

  size_t n_missing = 0;
  int64_t deadline_ns = 0;
};

// Each reading takes a second, so that each pass takes at least that long.
class SlowClock : public Clock {
 public:
  int64_t steady_ns() override { return now_ns += 1'000'000'000; }
  int64_t unix_ns() override { return 1'700'000'000'000'000'000; }
  std::atomic<int64_t> now_ns{0};
};

TEST(SessionTierTest, LookUpHasADeadlineOfHalfOfTheTimeToCompute) {
  WatchedTier* tier = nullptr;
  SlowClock clock;
  EngineParts parts;
  parts.clock = &clock;
  parts.open_tier = [&](KvPagePool&) -> Result<std::unique_ptr<KvTier>> {
    auto opened = std::make_unique<WatchedTier>();
    tier = opened.get();
    return std::unique_ptr<KvTier>(std::move(opened));
  };
  ChatFixture f(kChatMl, {}, 64u << 20, std::move(parts));
  f.say({f.tokenizer->sampled({"ab"}), f.tokenizer->sampled({"lo"})});
  ChatSession first = f.session({.system = kSystem});
  must(first.send("Hello", greedy()));
  EXPECT_EQ(tier->deadline_ns, ReadLimits::kNoDeadline) << "no rate was measured yet";
  const double row_ns = f.engine->state().scheduler().prefill_row_ns();
  ASSERT_GT(row_ns, 0);
  ChatSession second = f.session({.system = std::string(400, 'y')});
  const int64_t begin_ns = clock.now_ns;
  must(second.send("Hello", greedy()));
  EXPECT_GT(tier->n_missing, 300u);
  const double half_ns = row_ns * static_cast<double>(tier->n_missing) / 2;
  EXPECT_GE(static_cast<double>(tier->deadline_ns - begin_ns), half_ns);
  EXPECT_LE(tier->deadline_ns, clock.now_ns + static_cast<int64_t>(half_ns));
}

TEST(SessionTierTest, FailedOpenTierIsReportedByTierStatus) {
  EngineParts parts;
  parts.open_tier = [](KvPagePool&) -> Result<std::unique_ptr<KvTier>> { return Status(ErrorCode::kIo, "no server"); };
  ChatFixture f(kChatMl, {}, 64u << 20, std::move(parts));
  EXPECT_EQ(f.engine->state().tier(), nullptr);
  EXPECT_EQ(f.engine->state().tier_status().message(), "no server");
}

}  // namespace
}  // namespace ibid
