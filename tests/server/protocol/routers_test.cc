// The endpoints for routers: the load, the model, and the tokens of prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

const std::string kChat = R"({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]})";

TEST(RoutersTest, LoadIsInTheFormsOfVllmAndSglang) {
  FakeDoor door;
  door.change_site([](Site& site) { site.n_parallel = 8; });
  const Json load = door.send("GET", "/load")->json();
  EXPECT_EQ(load["server_load"], 4);
  EXPECT_EQ(load["num_running_reqs"], 1);
  EXPECT_EQ(load["num_waiting_reqs"], 3);
  EXPECT_EQ(load["token_usage"], 0.25);
  const Json loads = door.send("GET", "/v1/loads")->json();
  ASSERT_EQ(loads["loads"].size(), 1u);
  EXPECT_EQ(loads["dp_rank_count"], 1);
  EXPECT_EQ(loads["loads"][0]["dp_rank"], 0);
  EXPECT_EQ(loads["loads"][0]["num_running_reqs"], 1);
  EXPECT_EQ(loads["loads"][0]["num_waiting_reqs"], 3);
  EXPECT_EQ(loads["loads"][0]["num_used_tokens"], 640);
  EXPECT_EQ(loads["loads"][0]["max_total_num_tokens"], 2560);
  EXPECT_EQ(loads["loads"][0]["token_usage"], 0.25);
  EXPECT_EQ(loads["loads"][0]["max_running_requests"], 8);
  EXPECT_EQ(loads["aggregate"]["total_reqs"], 4);
}

TEST(RoutersTest, ModelAndServerAreDescribed) {
  FakeDoor door;
  for (const char* path : {"/model_info", "/server_info"}) {
    const Json info = door.send("GET", path)->json();
    EXPECT_EQ(info["model_path"], "/models/tiny.gguf") << path;
    EXPECT_EQ(info["served_model_name"], "tiny") << path;
    EXPECT_EQ(info["max_model_len"], 2048) << path;
    EXPECT_EQ(info["is_generation"], true) << path;
  }
  EXPECT_EQ(door.send("GET", "/server_info")->json()["max_total_num_tokens"], 2560);
  door.backend->has_one_model = true;  // and is not loaded
  EXPECT_EQ(door.send("GET", "/model_info")->json()["max_model_len"], 0);
}

TEST(RoutersTest, ChatIsRenderedToTokens) {
  FakeDoor door;
  const auto exchange = door.post("/v1/chat/completions/render", kChat);
  EXPECT_EQ(exchange->status, 200) << exchange->body;
  const Json rendered = exchange->json();
  EXPECT_EQ(rendered["model"], "tiny");
  EXPECT_THAT(rendered["request_id"].get<std::string>(), testing::StartsWith("chatcmpl-"));
  EXPECT_EQ(rendered["token_ids"].size(), 42u);
  EXPECT_EQ(door.last().messages.size(), 1u);
  EXPECT_TRUE(door.last().adds_generation_prompt);
  EXPECT_EQ(door.last().cache_namespace, "us");
}

TEST(RoutersTest, EachPromptOfACompletionIsRendered) {
  FakeDoor door;
  const Json one = door.post("/v1/completions/render", std::string(R"({"prompt": "a"})"))->json();
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0]["token_ids"].size(), 42u);
  const Json three = door.post("/v1/completions/render", std::string(R"({"prompt": ["a", "b", "c"]})"))->json();
  ASSERT_EQ(three.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(three[i]["token_ids"][0], 2 + i) << "in the order of the prompts";
  EXPECT_NE(three[0]["request_id"], three[1]["request_id"]);
  const Json infill = door.post("/v1/completions/render", std::string(R"({"prompt": "a", "suffix": "b"})"))->json();
  EXPECT_EQ(infill.size(), 1u);
  EXPECT_EQ(std::get<Infill>(*door.last().prompt).suffix, "b");
}

TEST(RoutersTest, ErrorsOfRenderingAreThoseOfTheRequest) {
  FakeDoor door;
  EXPECT_EQ(door.post("/v1/chat/completions/render", std::string(R"({"messages": []})"))->status, 400);
  EXPECT_EQ(door.post("/v1/completions/render", std::string("{}"))->status, 400);
  const std::string large = R"({"prompt": ")" + std::string(9u << 20, 'a') + "\"}";
  EXPECT_EQ(door.post("/v1/completions/render", large)->status, 413);
  door.change_site([](Site& site) { site.checks_model_names = true; });
  EXPECT_EQ(door.post("/v1/completions/render", std::string(R"({"model": "nobody", "prompt": "a"})"))->status, 404);
  door.backend->encode_status = {ErrorCode::kTemplateRaise, "roles must alternate"};
  const auto refused = door.post("/v1/chat/completions/render", kChat);
  EXPECT_EQ(refused->status, 400);
  EXPECT_THAT(refused->body, testing::HasSubstr("roles must alternate"));
  EXPECT_EQ(door.post("/v1/completions/render", std::string(R"({"prompt": ["a", "b"]})"))->status, 400);
}

}  // namespace
}  // namespace ibid::serve
