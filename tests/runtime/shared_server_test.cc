// Two engines share keys and values through a server: a conversation moves to a node that never saw it, and a server
// that is slow, stopped or hostile costs only prefill.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cache/tier/kv_tier.h"
#include "net/shared_server.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/memory_file_ops.h"
#include "tests/support/resp_server.h"

namespace ibid {
namespace {

const std::string kLongSystem(300, 'z');

// An engine on a server; several nodes of a test share the connections, as engines of a process do.
struct Node : ChatFixture {
  explicit Node(const RespServer& server, MemoryFileOps* files = nullptr)
      : ChatFixture(kChatMl, {}, 64u << 20, parts(server, files)) {
    say({ids("ab"), ids("lo"), ids("cd"), ids("xy")});
  }
  static EngineParts parts(const RespServer& server, MemoryFileOps* files) {
    EngineParts parts;
    parts.fingerprint = FingerprintBuilder().add("model", "one").finish();
    parts.shared_server = *net::SharedServer::open(server.url(), "");
    if (files != nullptr) {
      parts.files = files;
      parts.cache_directory = "/cache";
      parts.cache_directory_bytes = 1u << 30;
    }
    return parts;
  }
  ChatSession chat(const std::string& cache_namespace = {}) {
    return session({.system = kLongSystem, .cache_namespace = cache_namespace});
  }
  void flush() { EXPECT_TRUE(engine->flush_cache_directory().ok()); }
  KvTierStats stats(const char* name) const {
    for (const EngineState::NamedTier& tier : engine->state().tiers()) {
      if (tier.name == std::string_view(name)) return tier.tier->stats();
    }
    ADD_FAILURE() << "no tier " << name;
    return {};
  }
};

std::vector<Message> history_of(const std::vector<std::string>& texts) {
  std::vector<Message> messages = {{"system", kLongSystem}};
  for (size_t i = 0; i < texts.size(); ++i) messages.push_back({i % 2 == 0 ? "user" : "assistant", texts[i]});
  return messages;
}

// Continues a conversation on a node.
Turn continue_on(Node& node, const std::vector<std::string>& texts, const std::string& message,
                 const std::string& cache_namespace = {}) {
  ChatSession chat = node.session({.cache_namespace = cache_namespace});
  EXPECT_TRUE(chat.set_history(history_of(texts)).ok());
  const Turn turn = must(chat.send(message, greedy()));
  expect_replays(chat);
  return turn;
}

TEST(SharedServerTest, ConversationMovesToANodeThatNeverSawIt) {
  RespServer server;
  Node a(server), b(server);
  std::vector<std::string> texts;
  ChatSession chat = a.chat();
  for (const char* message : {"one", "two", "three"}) {
    texts.emplace_back(message);
    texts.push_back(must(chat.send(message, greedy())).text);
    a.flush();
    if (texts.size() == 2) continue;
    const Turn moved = continue_on(b, {texts.begin(), texts.end() - 2}, message);
    EXPECT_EQ(moved.text, texts.back()) << "the same answer";
    const size_t n_new = b.next_prompt(message).size();
    EXPECT_LE(moved.usage.n_prefilled, n_new + 64);
    EXPECT_GT(moved.usage.n_cached, 300u);
    b.flush();
  }
  EXPECT_EQ(b.stats("server").quarantined, 0u);
  EXPECT_GT(b.stats("server").hits, 0u);
  EXPECT_GT(b.stats("server").bytes_read, 0u);
  EXPECT_GT(a.stats("server").bytes_written, 0u);
}

TEST(SharedServerTest, NamespacesShareNothing) {
  RespServer server;
  Node a(server), b(server);
  must(a.chat("alice").send("one", greedy()));
  a.flush();
  EXPECT_EQ(must(b.chat("bob").send("one", greedy())).usage.n_cached, 0u);
  EXPECT_EQ(must(b.chat().send("one", greedy())).usage.n_cached, 0u);
  EXPECT_GT(must(b.chat("alice").send("one", greedy())).usage.n_cached, 300u);
}

TEST(SharedServerTest, ClearOfOneNodeClearsTheServerForAll) {
  RespServer server;
  {
    Node a(server);
    must(a.chat("alice").send("one", greedy()));
    must(a.chat("bob").send("one", greedy()));
    a.flush();
  }
  Node a(server), b(server), c(server);
  EXPECT_GT(must(b.chat("alice").send("one", greedy())).usage.n_cached, 300u);
  ASSERT_TRUE(a.engine->forget_namespace("alice").ok());
  EXPECT_EQ(must(c.chat("alice").send("one", greedy())).usage.n_cached, 0u);
  EXPECT_GT(must(c.chat("bob").send("one", greedy())).usage.n_cached, 300u);
  c.flush();
  EXPECT_GT(must(a.chat("alice").send("one", greedy())).usage.n_cached, 300u) << "written again in the new epoch";
}

TEST(SharedServerTest, ForgedValuesCostOnlyPrefill) {
  RespServer server;
  Turn first;
  {
    Node a(server);
    first = must(a.chat().send("one", greedy()));
    a.flush();
  }
  const std::vector<std::function<std::string(std::string)>> changes = {
      [](std::string v) { return v[v.size() / 2] ^= 1, v; }, [](std::string v) { return v.substr(0, v.size() / 2); },
      [](std::string) { return std::string("x"); }};
  for (const auto& change : changes) {
    server.edit([&](const std::string& key, const std::string& value) {
      return key.find(":r4:") == std::string::npos ? value : change(value);
    });
    Node b(server);
    const Turn turn = must(b.chat().send("one", greedy()));
    EXPECT_EQ(turn.text, first.text);
    EXPECT_EQ(turn.usage.n_cached, 0u);
    EXPECT_GT(b.stats("server").quarantined, 0u);
    b.flush();
  }
}

TEST(SharedServerTest, ServerThatHangsIsGivenUpAfterThreeTurns) {
  RespServer server;
  Turn first;
  {
    Node a(server);
    first = must(a.chat().send("one", greedy()));
    a.flush();
  }
  server.set_silent(true);
  const auto shared = *net::SharedServer::open(server.url(), "");
  const net::CircuitBreaker& breaker = shared->connections().breaker();
  for (int i = 0; i < 3 && breaker.allows_calls(); ++i) {
    Node b(server);
    const Turn turn = must(b.chat().send("one", greedy()));
    EXPECT_EQ(turn.text, first.text);
    EXPECT_EQ(turn.usage.n_cached, 0u);
  }
  EXPECT_FALSE(breaker.allows_calls());
  EXPECT_EQ(breaker.n_opened(), 1u);
  const size_t n_before = server.n_commands("GETEX");
  Node b(server);
  EXPECT_EQ(must(b.chat().send("one", greedy())).text, first.text);
  EXPECT_EQ(server.n_commands("GETEX"), n_before) << "no call is made";
  server.set_silent(false);
  for (int i = 0; i < 1000 && !breaker.allows_calls(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Node c(server);
  EXPECT_GT(must(c.chat().send("one", greedy())).usage.n_cached, 300u);
  EXPECT_EQ(breaker.state(), net::CircuitBreaker::State::kClosed);
}

TEST(SharedServerTest, PagesFromTheServerAreKeptInTheDirectory) {
  RespServer server;
  MemoryFileOps files;
  Turn first;
  {
    Node a(server);
    first = must(a.chat().send("one", greedy()));
    a.flush();
  }
  {
    Node b(server, &files);
    const Turn moved = must(b.chat().send("one", greedy()));
    EXPECT_EQ(moved.text, first.text);
    EXPECT_GT(moved.usage.n_cached, 300u);
    EXPECT_EQ(b.stats("directory").hits, 0u);
    EXPECT_EQ(b.stats("server").hits, 1u);
    b.flush();
  }
  server.set_down(true);
  Node again(server, &files);
  EXPECT_GT(must(again.chat().send("one", greedy())).usage.n_cached, 300u);
  EXPECT_EQ(again.stats("directory").hits, 1u);
}

TEST(SharedServerTest, EngineWithoutAKeyRefusesAnotherMachine) {
  EngineOptions options;
  options.cache_server = "redis://192.0.2.1";
  const auto engine = Engine::load("/nonexistent.gguf", options);
  EXPECT_EQ(engine.status().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(engine.status().message().find("192.0.2.1"), std::string::npos);
}

}  // namespace
}  // namespace ibid
