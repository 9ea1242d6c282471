// /v1/messages: blocks in and out, the order of events, usage, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

using testing::ElementsAre;

constexpr const char* kMessages = "/v1/messages";

std::string messages_with(const std::string& fields) {
  return R"({"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}])" + fields + "}";
}

TEST(AnthropicTest, WholeMessageHasBlocksAndUsage) {
  FakeDoor door;
  const auto exchange = door.post(kMessages, messages_with(R"(, "system": "be brief", "stop_sequences": ["END"],
    "temperature": 0.5, "top_k": 5, "metadata": {"user_id": "x"})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  const Json json = exchange->json();
  EXPECT_EQ(json["type"], "message");
  EXPECT_EQ(json["role"], "assistant");
  EXPECT_EQ(json_to_string(json["content"]), R"([{"type":"text","text":"Hello"}])");
  EXPECT_EQ(json["stop_reason"], "end_turn");
  EXPECT_TRUE(json["stop_sequence"].is_null());
  EXPECT_EQ(json_to_string(json["usage"]), R"({"input_tokens":10,"cache_creation_input_tokens":0,)"
                                           R"("cache_read_input_tokens":20,"output_tokens":5})");
  EXPECT_EQ(json_to_string(door.last().messages),
            R"([{"role":"system","content":"be brief"},{"role":"user","content":"hi"}])");
  EXPECT_EQ(door.last().options.max_tokens, 9u);
  EXPECT_THAT(door.last().options.stop_strings, ElementsAre("END"));
  EXPECT_EQ(door.last().options.sampler.top_k, 5u);
}

// Everything that is prefilled is kept; only a request with a mark counts it as written.
TEST(AnthropicTest, RequestWithCacheControlCountsPrefilledTokensAsWritten) {
  FakeDoor door;
  const std::string marked = R"(, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}])";
  const Json usage = door.post(kMessages, messages_with(marked))->json()["usage"];
  EXPECT_EQ(json_to_string(usage), R"({"input_tokens":0,"cache_creation_input_tokens":10,)"
                                   R"("cache_read_input_tokens":20,"output_tokens":5})");
  const auto events = door.post(kMessages, messages_with(marked + R"(, "stream": true)"))->events();
  EXPECT_EQ(events[events.size() - 2]["usage"], usage);
}

TEST(AnthropicTest, ContentBlocksBecomeMessages) {
  FakeDoor door;
  const auto exchange = door.post(kMessages, std::string(R"({"max_tokens": 9, "messages": [
    {"role": "user", "content": [{"type": "text", "text": "weather?", "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hmm", "signature": ""},
      {"type": "text", "text": "wait"}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": 2}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "sun"}]},
    {"role": "assistant", "content": "sun"},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2",
      "content": [{"type": "text", "text": "x"}]}, {"type": "text", "text": "and?"}]}]})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_EQ(json_to_string(door.last().messages),
            R"([{"role":"user","content":"weather?"},{"role":"assistant","content":"wait","reasoning_content":"hmm",)"
            R"("tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}}]},)"
            R"({"role":"tool","tool_call_id":"t1","content":"sun"},{"role":"assistant","content":"sun"},)"
            R"({"role":"tool","tool_call_id":"t2","content":"x"},{"role":"user","content":"and?"}])");
}

TEST(AnthropicTest, StrictToolIsReadAsInOpenAiRequests) {
  FakeDoor door;
  ASSERT_EQ(door.post(kMessages, messages_with(R"(, "tools": [
    {"name": "f", "strict": true, "input_schema": {"type": "object"}},
    {"type": "custom", "name": "g", "strict": null, "input_schema": {"type": "object"}}])"))
                ->status,
            200);
  const std::string tools = json_to_string(door.last().tools);
  ASSERT_EQ(door.post("/v1/chat/completions", std::string(R"({"messages": [{"role": "user", "content": "x"}], "tools": [
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": true}},
    {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}}]})"))
                ->status,
            200);
  EXPECT_EQ(json_to_string(door.last().tools), tools);
}

TEST(AnthropicTest, ToolsThinkingAndFormatReachTheService) {
  FakeDoor door;
  ASSERT_EQ(door.post(kMessages, messages_with(R"(, "tools": [{"name": "f", "description": "d",
    "input_schema": {"type": "object"}}], "tool_choice": {"type": "tool", "name": "f",
    "disable_parallel_tool_use": true}, "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}})"))
                ->status,
            200);
  const AnswerRequest& request = door.last();
  EXPECT_EQ(json_to_string(request.tools), R"([{"type":"function","function":{"name":"f","description":"d",)"
                                           R"("parameters":{"type":"object"}}}])");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_FALSE(request.tool_choice.parallel);
  EXPECT_EQ(request.variables["enable_thinking"], true);
  EXPECT_EQ(request.form.kind, ResponseFormat::Kind::kJsonSchema);
}

TEST(AnthropicTest, EventsFollowTheProtocolsOrder) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    Answer answer = make_answer("Hello");
    answer.tool_calls = {{"t1", "f", "{\"x\":1}"}};
    listener.begin("tiny", 30, fake_tokenizer());
    listener.reasoning(0, "hmm");
    listener.content(0, "He");
    listener.content(0, "llo");
    listener.tool_call(0, 0, "t1", "f");
    listener.tool_arguments(0, 0, "{\"x\"");
    listener.tool_arguments(0, 0, ":1}");
    listener.answer(0, answer);
    listener.end({});
  };
  const auto exchange = door.post(kMessages, messages_with(R"(, "stream": true)"));
  EXPECT_THAT(exchange->event_names(),
              ElementsAre("message_start", "ping", "content_block_start", "content_block_delta", "content_block_delta",
                          "content_block_stop", "content_block_start", "content_block_delta", "content_block_delta",
                          "content_block_stop", "content_block_start", "content_block_delta", "content_block_delta",
                          "content_block_stop", "message_delta", "message_stop"));
  const auto events = exchange->events();
  for (const Json& event : events) EXPECT_TRUE(event.contains("type"));
  EXPECT_EQ(events[0]["message"]["usage"]["input_tokens"], 30);
  EXPECT_EQ(events[3]["delta"]["thinking"], "hmm");
  EXPECT_EQ(events[4]["delta"]["type"], "signature_delta");
  EXPECT_EQ(events[6]["index"], 1);
  EXPECT_EQ(events[7]["delta"]["text"], "He");
  EXPECT_EQ(events[10]["content_block"]["name"], "f");
  EXPECT_EQ(events[11]["delta"]["partial_json"], "{\"x\"");
  EXPECT_EQ(events[14]["delta"]["stop_reason"], "tool_use");
  EXPECT_EQ(events[14]["usage"]["cache_read_input_tokens"], 20);
  EXPECT_NE(exchange->keep_alive.find("ping"), std::string::npos);
}

TEST(AnthropicTest, StopReasonsFollowTheProtocol) {
  const std::pair<FinishReason, const char*> reasons[] = {{FinishReason::kStop, "end_turn"},
                                                          {FinishReason::kStopString, "stop_sequence"},
                                                          {FinishReason::kLength, "max_tokens"},
                                                          {FinishReason::kRepetition, "max_tokens"}};
  for (const auto& [reason, word] : reasons) {
    FakeDoor door;
    door.backend->script = [reason = reason](const AnswerRequest& request, AnswerListener& listener) {
      Answer answer = make_answer("x");
      answer.finish_reason = reason;
      if (reason == FinishReason::kStopString) answer.stop_string = "END";
      FakeBackend::say(request, listener, answer);
    };
    EXPECT_EQ(door.post(kMessages, messages_with(""))->json()["stop_reason"], word);
  }
}

TEST(AnthropicTest, ConsecutiveUserMessagesAreMerged) {
  FakeDoor door;
  door.post(kMessages, std::string(R"({"max_tokens": 9, "messages": [{"role": "user", "content": "one"},
    {"role": "user", "content": [{"type": "text", "text": "two"}]}, {"role": "assistant", "content": "three"},
    {"role": "user", "content": "four"}]})"));
  EXPECT_EQ(json_to_string(door.last().messages),
            R"([{"role":"user","content":"one\ntwo"},{"role":"assistant","content":"three"},)"
            R"({"role":"user","content":"four"}])");
}

TEST(AnthropicTest, ToolResultsMayContainTextDocuments) {
  FakeDoor door;
  const std::string begin = R"({"max_tokens": 9, "messages": [{"role": "user", "content": "Q"}, {"role": "assistant",
    "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}, {"role": "user", "content":
    [{"type": "tool_result", "tool_use_id": "t", "content": [)";
  const std::pair<const char*, const char*> parts[] = {
      {R"({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "sun"}})", "sun"},
      {R"({"type": "text", "text": "a"}, {"type": "document", "source": {"type": "content", "content":
           [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}})",
       "a\nb\nc"},
      {R"({"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "found"}]})",
       "found"}};
  for (const auto& [part, text] : parts) {
    EXPECT_EQ(door.post(kMessages, begin + part + "]}]}]}")->status, 200) << part;
    EXPECT_EQ(door.last().messages[2]["content"], text) << part;
  }
  for (const char* part :
       {R"({"type": "document", "source": {"type": "base64", "data": "UA=="}})",
        R"({"type": "document", "source": {"type": "text", "data": 5}})", R"({"type": "document"})"}) {
    EXPECT_EQ(door.post(kMessages, begin + part + "]}]}]}")->status, 400) << part;
  }
}

TEST(AnthropicTest, CountTokensEndpointGeneratesNoAnswer) {
  FakeDoor door;
  const auto exchange =
      door.post("/v1/messages/count_tokens", std::string(R"({"messages": [{"role": "user", "content": "hi"}]})"));
  EXPECT_EQ(exchange->body, R"({"input_tokens":42})");
}

TEST(AnthropicTest, ErrorsHaveTheProtocolsFormat) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages": [{"role": "user", "content": "x"}]})", "max_tokens"},
      {R"({"max_tokens": 1})", "messages"},
      {R"({"max_tokens": 1, "messages": []})", "messages"},
      {R"({"max_tokens": 1, "messages": [{"role": "king", "content": "x"}]})", "messages[0].role"},
      {R"({"max_tokens": 1, "messages": [{"role": "system", "content": [{"type": "image"}]}]})",
       "messages[0].content[0].type"},
      {R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image"}]}]})",
       "messages[0].content[0].type"},
      {R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "tool_use"}]}]})",
       "messages[0].content[0].type"},
      {R"({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}],
           "tools": [{"name": "f", "input_schema": {}, "strict": "yes"}]})",
       "tools[0].strict"},
      {R"({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "thinking": {"type": "much"}})",
       "thinking.type"},
      {R"({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "any"}})",
       "tool_choice"},
      {R"({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "temperature": -1})", "temperature"}};
  for (const auto& [body, param] : cases) {
    FakeDoor door;
    const auto exchange = door.post(kMessages, std::string(body));
    EXPECT_EQ(exchange->status, 400) << body;
    const Json json = exchange->json();
    EXPECT_EQ(json["type"], "error");
    EXPECT_EQ(json["error"]["type"], "invalid_request_error");
    EXPECT_TRUE(json["error"]["message"].get<std::string>().starts_with(std::string(param) + ": ")) << json.dump();
  }
  FakeDoor door;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.end(Status(ErrorCode::kOutOfMemory, "no pages"));
  };
  const auto overloaded = door.post(kMessages, messages_with(""));
  EXPECT_EQ(overloaded->status, 529);
  EXPECT_EQ(overloaded->json()["error"]["type"], "overloaded_error");
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 3, fake_tokenizer());
    listener.content(0, "He");
    listener.end(Status(ErrorCode::kCorrupt, "broken"));
  };
  const auto broken = door.post(kMessages, messages_with(R"(, "stream": true)"));
  EXPECT_EQ(broken->event_names().back(), "error");
  EXPECT_EQ(broken->events().back()["error"]["type"], "api_error");
}

}  // namespace
}  // namespace ibid::serve
