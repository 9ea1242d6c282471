// Engines and sessions use a tier only through its interface: any KvTier works.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/cache/memory_tier.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/idle_fakes.h"

namespace ibid {
namespace {

const std::string kSystem(300, 'z');

// A process whose engine has its tier on a server.
struct Process : ChatFixture {
  explicit Process(RecordServer& server) : ChatFixture(kChatMl, {}, 64u << 20, parts(server)) {
    say({tokenizer->sampled({"ab"}), tokenizer->sampled({"lo"})});
  }
  static EngineParts parts(RecordServer& server) {
    EngineParts parts;
    parts.open_tier = [&server](KvPagePool& pool) -> Result<std::unique_ptr<KvTier>> {
      const Fingerprint fingerprint = FingerprintBuilder().add("model", "one").finish();
      return std::unique_ptr<KvTier>(
          std::make_unique<MemoryTier>(fingerprint, server, pool, system_clock(), std::make_unique<NeverIdle>()));
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
  RecordServer server;
  Turn first;
  {
    Process process(server);
    first = process.ask();
    EXPECT_EQ(first.usage.n_cached, 0u);
  }  // the engine flushes
  EXPECT_GT(server.size(), 4u);
  Process process(server);
  const Turn second = process.ask();
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(second.usage.n_cached, second.usage.n_prompt - 1);
  EXPECT_EQ(second.usage.n_from_disk, second.usage.n_cached);
}

TEST(SessionTierTest, UnreachableServerCostsOnlyPrefill) {
  RecordServer server;
  Turn first;
  {
    Process process(server);
    first = process.ask();
  }
  server.fails = true;
  Process process(server);
  const Turn second = process.ask();
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(second.usage.n_cached, 0u);
  EXPECT_EQ(second.usage.n_prefilled, second.usage.n_prompt);
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
