#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

TEST(LlamaServerTest, CompletionHasItsStopReason) {
  FakeDoor door;
  const Json json = door.post("/completion", std::string(R"({"prompt": "x", "n_predict": 4, "n_probs": 0})"))->json();
  EXPECT_EQ(json["content"], "Hello");
  EXPECT_EQ(json["stop"], true);
  EXPECT_EQ(json["stop_type"], "eos");
  EXPECT_EQ(json["tokens_evaluated"], 30);
  EXPECT_EQ(json["tokens_cached"], 20);
  EXPECT_EQ(json["timings"]["predicted_n"], 5);
  EXPECT_EQ(door.last().options.max_tokens, 4u);
  door.post("/completion", std::string(R"({"prompt": "x", "n_predict": -1})"));
  EXPECT_EQ(door.last().options.max_tokens, 0u);
}

TEST(LlamaServerTest, CompletionHasItsSamplingOptions) {
  FakeDoor door;
  door.backend->defaults.sampler.top_p = 0.75;
  const std::string body = R"({"prompt": "x", "n_predict": 4, "temperature": 0.5, "top_k": 7, "min_p": 0.25,
      "repeat_penalty": 1.5, "stop": ["a", "b"], "grammar": "root ::= \"x\"")";
  const Json settings = door.post("/completion", body + "}")->json()["generation_settings"];
  EXPECT_EQ(settings["seed"], 7) << "seed of the answer";
  EXPECT_EQ(settings["n_predict"], 4);
  EXPECT_EQ(settings["temperature"], 0.5);
  EXPECT_EQ(settings["top_k"], 7);
  EXPECT_EQ(settings["top_p"], 0.75) << "the model's default";
  EXPECT_EQ(settings["min_p"], 0.25);
  EXPECT_EQ(settings["repeat_penalty"], 1.5);
  EXPECT_EQ(settings["repeat_last_n"], -1);
  EXPECT_EQ(settings["stop"], Json::array({"a", "b"}));
  EXPECT_EQ(settings["grammar"], "root ::= \"x\"");
  EXPECT_EQ(settings["stream"], false);
  const auto events = door.post("/completion", body + R"(, "stream": true})")->events();
  EXPECT_FALSE(events.front().contains("generation_settings"));
  EXPECT_EQ(events.back()["generation_settings"]["temperature"], 0.5);
  EXPECT_EQ(events.back()["generation_settings"]["stream"], true);
  EXPECT_EQ(door.post("/completion", std::string(R"({"prompt": "x"})"))->json()["generation_settings"]["n_predict"],
            -1);
}

TEST(LlamaServerTest, StreamHasPartsAndAnEnd) {
  FakeDoor door;
  const auto events = door.post("/completion", std::string(R"({"prompt": [1, 2], "stream": true})"))->events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["content"], "He");
  EXPECT_EQ(events[0]["stop"], false);
  EXPECT_EQ(events[2]["stop"], true);
}

TEST(LlamaServerTest, TokenizesAndDetokenizes) {
  FakeDoor door;
  const Json tokens = door.post("/tokenize", std::string(R"({"content": "abc"})"))->json()["tokens"];
  ASSERT_TRUE(tokens.is_array());
  EXPECT_EQ(door.post("/detokenize", Json({{"tokens", tokens}}))->json()["content"], "abc");
  const Json pieces = door.post("/tokenize", std::string(R"({"content": "a\u00e9", "with_pieces": true})"))->json();
  EXPECT_EQ(pieces["tokens"][0]["piece"], "a");
  EXPECT_EQ(door.post("/detokenize", std::string(R"({"tokens": [99999999]})"))->json()["error"]["param"], "tokens[0]");
  EXPECT_EQ(door.post("/detokenize", std::string(R"({"tokens": [-1]})"))->json()["error"]["param"], "tokens[0]");
  EXPECT_EQ(door.post("/tokenize", std::string("{}"))->json()["error"]["param"], "content");
}

TEST(LlamaServerTest, AppliesTemplatesAndReturnsProps) {
  FakeDoor door;
  const std::string chat = R"({"messages": [{"role": "user", "content": "hi"}]})";
  EXPECT_EQ(door.post("/apply-template", chat)->json()["prompt"], "<rendered>");
  EXPECT_EQ(door.post("/apply-template", std::string("{}"))->status, 400);
  const Json props = door.send("GET", "/props")->json();
  const Json& settings = props["default_generation_settings"];
  EXPECT_EQ(settings["n_ctx"], 2048);
  for (const Json* there : {&settings, &settings["params"]}) {
    EXPECT_EQ((*there)["temperature"], door.backend->defaults.sampler.temperature);
    EXPECT_EQ((*there)["min_p"], door.backend->defaults.sampler.min_p);
    EXPECT_EQ((*there)["top_k"], 0);
    EXPECT_EQ((*there)["seed"], 4294967295u);
    EXPECT_EQ((*there)["n_predict"], -1);
  }
  EXPECT_EQ(props["chat_template"], "{{ messages }}");
}

}  // namespace
}  // namespace ibid::serve
