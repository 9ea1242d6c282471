// How the fields of a chat completion's request reach the service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

using testing::ElementsAre;

constexpr const char* kChatPath = "/v1/chat/completions";

Json request_with(const char* fields) {
  Json body = Json::parse(R"({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]})");
  body.update(Json::parse(fields));
  return body;
}

TEST(OpenAiChatRequestTest, MessagesAreConvertedForTemplates) {
  FakeDoor door;
  const auto exchange = door.post(kChatPath, std::string(R"({"messages": [
    {"role": "developer", "content": "be brief"},
    {"role": "user", "name": "ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null, "refusal": null, "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"b\": 1,  \"a\": 2}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "3"}]})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_EQ(json_to_string(door.last().messages),
            R"([{"role":"system","content":"be brief"},{"role":"user","name":"ann","content":"a\nb"},)"
            R"({"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":)"
            R"({"name":"f","arguments":"{\"b\": 1,  \"a\": 2}"}}]},)"
            R"({"role":"tool","content":"3","tool_call_id":"c1"}])");
}

TEST(OpenAiChatRequestTest, SamplingOptionsAreReadUnderCommonNames) {
  FakeDoor door;
  const auto exchange =
      door.post(kChatPath, request_with(R"({"temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1,
    "typical": 0.8, "repeat_penalty": 1.1, "repeat_last_n": 64, "frequency_penalty": 0.5, "presence_penalty": -0.5,
    "dry_multiplier": 0.8, "dry_base": 2, "dry_allowed_length": 3, "dry_penalty_last_n": -1,
    "dry_sequence_breakers": ["x"], "xtc_probability": 0.5, "xtc_threshold": 0.2, "seed": 18446744073709551615,
    "logit_bias": {"5": 2.5, "6": -100}, "allowed_token_ids": [4, 5], "logprob_token_ids": [6], "stop": ["END", "STOP"], "max_tokens": 5, "max_completion_tokens": 6, "n": 2,
    "min_tokens": 1})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  const SamplerOptions& sampler = door.last().options.sampler;
  EXPECT_EQ(sampler.temperature, 0.5);
  EXPECT_EQ(sampler.top_p, 0.9);
  EXPECT_EQ(sampler.top_k, 40u);
  EXPECT_EQ(sampler.min_p, 0.1);
  EXPECT_EQ(sampler.typical_p, 0.8);
  EXPECT_EQ(sampler.repetition_penalty, 1.1);
  EXPECT_EQ(sampler.repetition_window, 64u);
  EXPECT_EQ(sampler.frequency_penalty, 0.5);
  EXPECT_EQ(sampler.presence_penalty, -0.5);
  EXPECT_EQ(sampler.dry_multiplier, 0.8);
  EXPECT_EQ(sampler.dry_base, 2);
  EXPECT_EQ(sampler.dry_allowed_length, 3u);
  EXPECT_EQ(sampler.dry_window, std::nullopt);
  EXPECT_EQ(sampler.xtc_probability, 0.5);
  EXPECT_EQ(sampler.xtc_threshold, 0.2);
  EXPECT_EQ(sampler.seed, 18446744073709551615u);
  EXPECT_EQ(sampler.logit_bias.at(5), 2.5);
  EXPECT_EQ(door.last().allowed_tokens, (Tokens{4, 5}));
  EXPECT_EQ(door.last().options.logprob_token_ids, (Tokens{6}));
  EXPECT_EQ(sampler.logit_bias.at(6), -std::numeric_limits<double>::infinity());
  const TurnOptions& options = door.last().options;
  EXPECT_THAT(options.stop_strings, ElementsAre("END", "STOP"));
  EXPECT_THAT(options.dry_sequence_breakers, ElementsAre("x"));
  EXPECT_EQ(options.max_tokens, 6u);
  EXPECT_EQ(options.min_tokens, 1u);
  EXPECT_EQ(door.last().n, 2u);
  EXPECT_EQ(exchange->json()["choices"].size(), 2u);
}

TEST(OpenAiChatRequestTest, IgnoreEosBansEndTokens) {
  FakeDoor door;
  EXPECT_EQ(door.post(kChatPath, request_with(R"({"ignore_eos": true, "min_tokens": 2})"))->status, 200);
  EXPECT_EQ(door.last().options.min_tokens, std::numeric_limits<size_t>::max());
  door.post(kChatPath, request_with(R"({"ignore_eos": false, "min_tokens": 2})"));
  EXPECT_EQ(door.last().options.min_tokens, 2u);
  door.post("/completion", std::string(R"({"prompt": "x", "ignore_eos": true})"));
  EXPECT_EQ(door.last().options.min_tokens, std::numeric_limits<size_t>::max());
  door.post("/v1/completions", std::string(R"({"prompt": "x", "ignore_eos": true})"));
  EXPECT_EQ(door.last().options.min_tokens, std::numeric_limits<size_t>::max());
  door.post("/api/chat", std::string(R"({"messages": [{"role": "user", "content": "x"}], "stream": false,
    "options": {"ignore_eos": true}})"));
  EXPECT_EQ(door.last().options.min_tokens, std::numeric_limits<size_t>::max());
}

TEST(OpenAiChatRequestTest, MissingOptionsHaveTheDefaultsOfTheModel) {
  FakeDoor door;
  door.backend->defaults.sampler.temperature = 0.3;
  door.backend->defaults.sampler.top_k = 9;
  door.post(kChatPath, request_with(R"({"top_k": null, "temperature": 1})"));
  EXPECT_EQ(door.last().options.sampler.temperature, 1.0);
  EXPECT_EQ(door.last().options.sampler.top_k, 9u);
}

TEST(OpenAiChatRequestTest, FormatsToolsAndReasoningReachTheService) {
  FakeDoor door;
  ASSERT_EQ(
      door.post(kChatPath, request_with(R"({"response_format": {"type": "json_schema", "json_schema": {"name": "x",
    "schema": {"type": "object", "b": 1, "a": 2}}}, "reasoning_effort": "low", "chat_template_kwargs": {"x": [1]},
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
    "truncate": "oldest", "cache_salt": "s1"})"))
          ->status,
      200);
  const AnswerRequest& request = door.last();
  EXPECT_EQ(request.form.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(request.form.text, R"({"type":"object","b":1,"a":2})");
  EXPECT_EQ(json_to_string(request.variables),
            R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"low","x":[1]})");
  EXPECT_EQ(json_to_string(request.tools),
            R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(request.tool_choice.name, "f");
  EXPECT_FALSE(request.tool_choice.parallel);
  EXPECT_EQ(request.when_full, WhenFull::kDropOldestTurns);
  EXPECT_NE(request.cache_namespace, "us");
}

TEST(OpenAiChatRequestTest, FormatFieldsOfOtherServersAreRead) {
  using Kind = ResponseFormat::Kind;
  const std::pair<const char*, Kind> forms[] = {
      {R"({"grammar": "root ::= \"a\""})", Kind::kGbnf},
      {R"({"json_schema": {"type": "object"}})", Kind::kJsonSchema},
      {R"({"response_format": {"type": "json_object"}})", Kind::kJsonObject},
      {R"({"response_format": {"type": "json_object", "schema": {}}})", Kind::kJsonSchema},
      {R"({"response_format": {"type": "text"}})", Kind::kText},
      {R"({"guided_json": "{\"type\": \"object\"}"})", Kind::kJsonSchema},
      {R"({"guided_regex": "a+"})", Kind::kRegex},
      {R"({"guided_choice": ["a", "b"]})", Kind::kChoices},
      {R"({"structured_outputs": {"regex": "a+"}})", Kind::kRegex}};
  for (const auto& [fields, kind] : forms) {
    FakeDoor door;
    ASSERT_EQ(door.post(kChatPath, request_with(fields))->status, 200) << fields;
    EXPECT_EQ(door.last().form.kind, kind) << fields;
  }
}

// Roles that only some templates know, such as Granite's "control".
TEST(OpenAiChatRequestTest, UnknownRolesArePassedToTheTemplate) {
  FakeDoor door;
  const Json json = door.post(kChatPath, std::string(R"({"messages": [{"role": "control", "content": "thinking"},
    {"role": "user", "content": "Q"}]})"))
                        ->json();
  EXPECT_EQ(door.last().messages[0]["role"], "control");
  EXPECT_EQ(json["ibid"]["ignored"][0]["field"], "messages[0].role");
}

}  // namespace
}  // namespace ibid::serve
