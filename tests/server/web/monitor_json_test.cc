#include "server/web/monitor_json.h"

#include <gtest/gtest.h>

#include <string>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/server/protocol/fake_door.h"
#include "tests/support/manual_clock.h"

namespace ibid::serve {
namespace {

MonitorSample sample_of(std::shared_ptr<Engine> engine) {
  MonitorSample sample;
  sample.server = {.n_connections = 9, .n_open = 2, .n_requests = 30, .n_refused = 1, .n_slow_clients = 4};
  sample.answers.n_answers = 12;
  sample.answers.n_prompt = 100;
  sample.answers.n_bad = 3;
  sample.answers.n_cached = 80;
  sample.models = {{.name = "a", .file_bytes = 77, .is_loaded = true, .engine = std::move(engine)},
                   {.name = "b", .file_bytes = 88}};
  return sample;
}

void say(ChatFixture& fixture, const std::string& name_space, const std::string& text) {
  ChatSession session = fixture.session({.cache_namespace = name_space});
  ASSERT_TRUE(session.send(text, greedy()).ok());
}

TEST(MonitorJsonTest, JsonHasServerAndAnswerFigures) {
  const Json json = monitor_json(sample_of(nullptr), "us", 5'500'000'000, 2'000'000'000);
  EXPECT_EQ(json["time_ms"], 5500);
  EXPECT_EQ(json["uptime_s"], 3.5);
  EXPECT_EQ(json["server"]["requests"], 30);
  EXPECT_EQ(json["server"]["slow_clients"], 4);
  EXPECT_EQ(json["answers"]["done"], 12);
  EXPECT_EQ(json["answers"]["bad"], 3);
  EXPECT_EQ(json["answers"]["failed"], 0);
  EXPECT_EQ(json["tokens"]["cached"], 80);
  EXPECT_EQ(json["models"].size(), 2u);
  EXPECT_EQ(json["models"][1]["loaded"], false);
  EXPECT_EQ(json["models"][1]["file_bytes"], 88);
}

TEST(MonitorJsonTest, ModelHasFiguresOfItsEngine) {
  ChatFixture fixture;
  say(fixture, "us", "a question of some length, so that there are pages");
  const Json json = monitor_json(sample_of(fixture.engine), "us", 0, 0)["models"][0];
  EXPECT_EQ(json["max_seq_len"], fixture.engine->max_seq_len());
  EXPECT_EQ(json["passes"]["n"], fixture.engine->state().scheduler().stats().n_passes);
  EXPECT_GT(json["passes"]["n"], 0);
  EXPECT_EQ(json["pool"]["bytes"], fixture.engine->state().pool().bytes_in_use());
  EXPECT_EQ(json["pool"]["budget_bytes"], fixture.engine->state().pool().budget_bytes());
  EXPECT_EQ(json["store"]["bytes"], fixture.engine->state().store().stats().bytes);
  EXPECT_GT(json["store"]["bytes"], 0);
  EXPECT_TRUE(json["tiers"].empty());
}

TEST(MonitorJsonTest, OtherNamespacesAreSummedInOneRowWithoutNames) {
  ChatFixture fixture;
  say(fixture, "alice", "what alice asks, which is nobody else's business");
  say(fixture, "bob", "bob's question");
  say(fixture, "carol", "carol's question");
  const Json json = monitor_json(sample_of(fixture.engine), "alice", 0, 0);
  const Json& rows = json["models"][0]["namespaces"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["name"], "alice");
  EXPECT_EQ(rows[0]["is_own"], true);
  EXPECT_EQ(rows[0]["bytes"], fixture.engine->state().store().stats("alice").bytes);
  EXPECT_EQ(rows[1]["is_own"], false);
  const size_t own = rows[0]["bytes"].get<size_t>(), others = rows[1]["bytes"].get<size_t>();
  EXPECT_EQ(own + others, fixture.engine->state().store().stats().bytes);
  const std::string text = json_to_string(json);
  EXPECT_EQ(text.find("bob"), std::string::npos);
  EXPECT_EQ(text.find("carol"), std::string::npos);
  EXPECT_EQ(text.find("asks"), std::string::npos);
}

TEST(MonitorJsonTest, SingleNamespaceHasNoRowOfOtherNamespaces) {
  ChatFixture fixture;
  say(fixture, "us", "hello");
  EXPECT_EQ(monitor_json(sample_of(fixture.engine), "us", 0, 0)["models"][0]["namespaces"].size(), 1u);
}

TEST(MonitorJsonTest, RouteRequiresTheKeyAndTakesASampleForEachRequest) {
  http::Router router;
  ManualClock clock;
  size_t n_asked = 0;
  add_monitor_route(
      router,
      [&n_asked] {
        MonitorSample sample;
        sample.server.n_requests = ++n_asked;
        return sample;
      },
      clock);
  const http::Router::Match match = router.find("GET", "/monitor.json");
  ASSERT_NE(match.handler, nullptr);
  EXPECT_EQ(match.access, http::Access::kKey);
  for (size_t i = 1; i <= 2; ++i) {
    auto exchange = std::make_shared<FakeExchange>(http::Request{.method = "GET", .path = "/monitor.json"});
    (*match.handler)(exchange, match.parts);
    EXPECT_EQ(exchange->status, 200);
    EXPECT_EQ(exchange->json()["server"]["requests"], i);
  }
}

}  // namespace
}  // namespace ibid::serve
