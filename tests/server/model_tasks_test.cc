// Endpoints that need a model but no answer, and /ready, with a real service: their handlers do not block.
#include <gtest/gtest.h>

#include <future>

#include "server/protocol/prompts.h"
#include "server/routes.h"
#include "server/service/service.h"
#include "tests/server/protocol/fake_door.h"
#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

// A service whose only model is loaded when the test allows it.
struct SlowModel {
  SlowModel() {
    const auto load = [this](const std::string&) -> Result<std::shared_ptr<Engine>> {
      may_load.get_future().wait();
      return chat.engine;
    };
    host = ModelHost::create({ModelSource(dir.write("slow.gguf", "x"))}, load, clock, {.load_at_once = false}).value();
    service = std::make_shared<Service>(*host, clock, ServiceFixture::quiet());
  }

  TempDir dir;
  ManualClock clock;
  ChatFixture chat;
  std::promise<void> may_load;
  std::unique_ptr<ModelHost> host;
  std::shared_ptr<Service> service;
};

TEST(ModelTasksTest, HandlersDoNotWaitForAModel) {
  SlowModel f;
  FakeDoor door(f.service);
  const std::string message = R"("messages": [{"role": "user", "content": "x"}])";
  const std::pair<const char*, std::string> requests[] = {
      {"/tokenize", R"({"content": "x"})"},
      {"/detokenize", R"({"tokens": [1]})"},
      {"/apply-template", "{" + message + "}"},
      {"/v1/messages/count_tokens", R"({"model": "", )" + message + "}"},
      {"/api/chat", "{}"},
      {"/v1/completions", R"({"prompt": [1, 2], "echo": true, "max_tokens": 1})"}};
  std::vector<std::shared_ptr<FakeExchange>> exchanges;
  for (const auto& [path, body] : requests) exchanges.push_back(door.post(path, body));
  for (const auto& exchange : exchanges) EXPECT_FALSE(exchange->ended) << exchange->request().path;
  f.may_load.set_value();
  ASSERT_TRUE(f.service->wait_until_quiet(std::chrono::seconds(60)));
  for (const auto& exchange : exchanges) {
    EXPECT_EQ(exchange->status, 200) << exchange->request().path << exchange->body;
  }
}

TEST(ModelTasksTest, LongTextsAreRefusedBeforeParsing) {
  FakeDoor door;
  const std::string body(kMaxTextBodyBytes + 1, ' ');
  for (const char* path : {"/tokenize", "/detokenize", "/apply-template", "/v1/messages/count_tokens"}) {
    const auto exchange = door.post(path, body);
    EXPECT_EQ(exchange->status, 413) << path;
    EXPECT_NE(exchange->body.find(std::to_string(kMaxTextBodyBytes)), std::string::npos) << exchange->body;
  }
}

TEST(ReadyTest, ReadyEndpointReturns503WhileLoadingAndDuringShutdown) {
  http::Router router;
  ServerFacts facts;
  add_server_routes(router, facts, nullptr, nullptr);
  const auto ready = [&] {
    auto exchange = std::make_shared<FakeExchange>(http::Request{.method = "GET", .path = "/ready"});
    (*router.find("GET", "/ready").handler)(exchange, {});
    return exchange->status;
  };
  EXPECT_EQ(ready(), 503);
  facts.readiness = Readiness::kReady;
  EXPECT_EQ(ready(), 200);
  facts.readiness = Readiness::kDraining;
  EXPECT_EQ(ready(), 503);
}

}  // namespace
}  // namespace ibid::serve
