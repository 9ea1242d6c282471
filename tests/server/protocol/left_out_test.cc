// Parts of requests that can be left out, or mean "off", do not cost the request; what was left out is reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "templates/message.h"
#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kChat = "/v1/chat/completions";

// A body with these fields besides the smallest valid ones.
std::string body_for(const std::string& path, const std::string& fields) {
  std::string body = R"({"messages": [{"role": "user", "content": "hi"}])";
  if (path == "/v1/responses") body = R"({"input": "hi")";
  if (path == "/v1/messages") body += R"(, "max_tokens": 5)";
  const bool streams = fields.find("\"stream\"") != std::string::npos;
  if (path == "/api/chat" && !streams) body += R"(, "stream": false)";
  if (path == "/v1/completions" || path == "/completion") body = R"({"prompt": "hi")";
  if (path == "/api/generate") body = streams ? R"({"prompt": "hi")" : R"({"prompt": "hi", "stream": false)";
  if (path == "/infill") body = R"({"input_prefix": "a", "input_suffix": "b")";
  return body + (fields.empty() ? "" : ", ") + fields + "}";
}

// The fields that an answer reports as ignored.
std::vector<std::string> ignored_in(const Json& answer) {
  std::vector<std::string> fields;
  if (!answer["ibid"].contains("ignored")) return fields;
  for (const Json& part : answer["ibid"]["ignored"]) {
    EXPECT_FALSE(part["reason"].get<std::string>().empty());
    fields.push_back(part["field"]);
  }
  return fields;
}

TEST(LeftOutTest, NeutralValuesHaveTheEffectOfAMissingField) {
  const std::pair<const char*, const char*> cases[] = {
      {kChat, R"("grammar": "")"},
      {kChat, R"("guided_json": "", "guided_regex": "", "guided_choice": [], "guided_grammar": "")"},
      {kChat, R"("response_format": {})"},
      {kChat,
       R"("stop": "", "dry_sequence_breakers": "", "dry_base": 0, "dry_allowed_length": 0, "repeat_penalty": 0)"},
      {kChat, R"("stop": [""])"},
      {kChat, R"("top_n_sigma": -1)"},
      {kChat, R"("top_n_sigma": 0)"},
      {kChat, R"("tfs_z": 1, "tfs": 1.0, "mirostat": 0, "mirostat_mode": 0, "dynatemp_range": 0, "top_a": 0)"},
      {kChat, R"("epsilon_cutoff": 0, "eta_cutoff": 0, "penalty_alpha": 0, "guidance_scale": 1)"},
      {kChat, R"("top_logprobs": 0)"},
      {kChat, R"("best_of": 1, "use_beam_search": false, "length_penalty": 1, "early_stopping": false)"},
      {kChat, R"("tool_choice": "", "reasoning_effort": "", "tools": [])"},
      {kChat, R"("skip_special_tokens": true, "include_stop_str_in_output": false, "cache_prompt": true)"},
      {kChat, R"("function_call": "auto", "functions": [])"},
      {kChat, R"("lora": [], "bad_words": [], "stop_token_ids": [], "allowed_token_ids": [])"},
      {kChat, R"("t_max_predict_ms": -1, "samplers": [])"},
      {"/v1/completions", R"("suffix": "", "logprobs": false)"},
      {"/completion", R"("grammar": "", "stop": "", "top_n_sigma": -1.0, "lora": [], "n_keep": 0, "id_slot": -1)"},
      {"/api/chat", R"("options": {"tfs_z": 1, "stop": [""], "mirostat": 0, "num_ctx": 0}, "think": "")"},
      {"/v1/messages", R"("stop_sequences": [""], "mcp_servers": [])"},
      {"/v1/responses", R"("background": false, "tools": [])"},
  };
  for (const auto& [path, fields] : cases) {
    FakeDoor plain, door;
    ASSERT_EQ(plain.post(path, body_for(path, ""))->status, 200) << path;
    const auto exchange = door.post(path, body_for(path, fields));
    ASSERT_EQ(exchange->status, 200) << fields << ' ' << exchange->body;
    EXPECT_THAT(ignored_in(exchange->json()), IsEmpty()) << fields;
    const AnswerRequest &with = door.last(), &without = plain.last();
    EXPECT_EQ(with.form.kind, without.form.kind) << fields;
    EXPECT_EQ(with.options.stop_strings, without.options.stop_strings) << fields;
    EXPECT_EQ(with.options.max_tokens, without.options.max_tokens) << fields;
    EXPECT_EQ(with.n, without.n) << fields;
    EXPECT_TRUE(with.tools.is_null()) << fields;
  }
}

TEST(LeftOutTest, MaxTokensBelowOneFollowsTheProtocol) {
  const std::pair<const char*, const char*> cases[] = {{kChat, "max_tokens"},
                                                       {kChat, "max_completion_tokens"},
                                                       {"/v1/completions", "max_tokens"},
                                                       {"/v1/responses", "max_output_tokens"},
                                                       {"/completion", "n_predict"},
                                                       {"/completion", "max_tokens"}};
  for (const auto& [path, name] : cases) {
    FakeDoor door;
    door.backend->defaults.max_tokens = 7;
    ASSERT_EQ(door.post(path, body_for(path, "\"" + std::string(name) + "\": -1"))->status, 200) << path;
    EXPECT_EQ(door.last().options.max_tokens, 0u) << path << ": no limit";
    EXPECT_EQ(door.last().n, 1u);
    const auto exchange = door.post(path, body_for(path, "\"" + std::string(name) + "\": 0, \"n\": 1"));
    ASSERT_EQ(exchange->status, 200) << path << exchange->body;
    EXPECT_EQ(door.last().n, 0u) << path << ": only prefill";
    const auto stream = door.post(path, body_for(path, "\"" + std::string(name) + "\": 0, \"stream\": true"));
    EXPECT_TRUE(stream->ended && stream->streams) << path;
  }
  FakeDoor door;
  EXPECT_EQ(
      door.post("/v1/messages", std::string(R"({"max_tokens": 0, "messages": [{"role": "user", "content": "x"}]})"))
          ->status,
      200);
  EXPECT_EQ(door.last().n, 0u);
}

TEST(LeftOutTest, EmptyStopsAreDroppedFromAList) {
  FakeDoor door;
  ASSERT_EQ(door.post(kChat, body_for(kChat, R"("stop": ["a", "", "b"])"))->status, 200);
  EXPECT_THAT(door.last().options.stop_strings, ElementsAre("a", "b"));
}

// A chat of several characters has a stop string for each of their names.
TEST(LeftOutTest, DozensOfStopsAreAccepted) {
  Json names = Json::array();
  for (int i = 0; i < 128; ++i) names.push_back("\nName" + std::to_string(i) + ":");
  for (const auto& [path, field] : std::vector<std::pair<std::string, std::string>>{
           {kChat, "stop"}, {"/completion", "stop"}, {"/v1/messages", "stop_sequences"}}) {
    FakeDoor door;
    const auto status = [&] {
      return door.post(path, body_for(path, "\"" + field + "\": " + json_to_string(names)))->status;
    };
    ASSERT_EQ(status(), 200) << path;
    EXPECT_EQ(door.last().options.stop_strings.size(), 128u);
    names.push_back("one more");
    EXPECT_EQ(status(), 400) << path;
    names.erase(128);
  }
}

TEST(LeftOutTest, SamplersThatTheRequestDoesNotNameAreOff) {
  const std::string all = R"("temperature": 0.5, "top_k": 9, "top_p": 0.5, "min_p": 0.1, "typical_p": 0.5,
    "repeat_penalty": 1.5, "dry_multiplier": 1, "xtc_probability": 0.5)";
  for (const char* named : {R"(["top_k", "temperature"])", R"("kt")", R"(["quadratic", "top_k", "tfs_z", "temp"])"}) {
    FakeDoor door;
    const auto exchange = door.post(kChat, body_for(kChat, all + R"(, "samplers": )" + named));
    ASSERT_EQ(exchange->status, 200) << exchange->body;
    const SamplerOptions& sampler = door.last().options.sampler;
    EXPECT_EQ(sampler.temperature, 0.5);
    EXPECT_EQ(sampler.top_k, 9u);
    EXPECT_EQ(sampler.top_p, 1);
    EXPECT_EQ(sampler.min_p, 0);
    EXPECT_EQ(sampler.typical_p, 1);
    EXPECT_EQ(sampler.repetition_penalty, 1);
    EXPECT_EQ(sampler.dry_multiplier, 0);
    EXPECT_EQ(sampler.xtc_probability, 0);
    EXPECT_THAT(ignored_in(exchange->json()), ElementsAre("samplers"));
  }
  FakeDoor door;
  ASSERT_EQ(door.post(kChat, body_for(kChat, all + R"(, "samplers": ["penalties", "dry", "top_n_sigma", "top_k",
    "typ_p", "top_p", "min_p", "xtc", "temperature"])"))
                ->status,
            200);
  EXPECT_EQ(door.last().options.sampler.min_p, 0.1);
}

TEST(LeftOutTest, AnnotationsAndUnknownFieldsAreReported) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {kChat, {"never_heard_of", "service_tier"}},           {"/v1/completions", {"never_heard_of", "service_tier"}},
      {"/v1/responses", {"never_heard_of", "service_tier"}}, {"/v1/messages", {"never_heard_of", "service_tier"}},
      {"/api/chat", {"never_heard_of", "service_tier"}},     {"/api/generate", {"never_heard_of", "service_tier"}},
      {"/completion", {"never_heard_of", "service_tier"}},   {"/infill", {"never_heard_of", "service_tier"}},
  };
  const std::string fields = R"("never_heard_of": 1, "service_tier": "flex", "nothing": null)";
  for (const auto& [path, names] : cases) {
    FakeDoor door;
    const auto exchange = door.post(path, body_for(path, fields));
    ASSERT_EQ(exchange->status, 200) << path << exchange->body;
    EXPECT_EQ(ignored_in(exchange->json()), names) << path;
    EXPECT_TRUE(door.last().ignored.front().is_clients_own) << "not for the log";
    EXPECT_FALSE(door.last().ignored.back().is_clients_own);
  }
  FakeDoor door;
  for (const auto& [path, names] : cases) {
    const auto events = door.post(path, body_for(path, fields + R"(, "stream": true)"))->events();
    const auto last = std::ranges::find_if(events.rbegin(), events.rend(), [](const Json& event) {
      return event.is_object() && (event.contains("ibid") || event.contains("response"));
    });
    ASSERT_NE(last, events.rend()) << path;
    const bool is_response = path == std::string("/v1/responses");
    EXPECT_EQ(ignored_in(is_response ? (*last)["response"] : *last), names) << path;
  }
  EXPECT_THAT(
      ignored_in(door.post("/api/chat", body_for("/api/chat", R"("options": {"num_ctx": 9, "xx": 1})"))->json()),
      ElementsAre("options.num_ctx", "options.xx"));
  EXPECT_THAT(ignored_in(door.post(kChat, body_for(kChat, R"("stream_options": {"xx": 1})"))->json()),
              ElementsAre("stream_options.xx"));
  EXPECT_THAT(ignored_in(door.post("/v1/responses", body_for("/v1/responses", R"("include": ["reasoning.x"],
    "text": {"verbosity": "low"}, "reasoning": {"effort": "low", "summary": "auto"})"))
                             ->json()),
              ElementsAre("text.verbosity", "reasoning.summary", "include[0]"));
}

TEST(LeftOutTest, ListOfIgnoredFieldsIsBounded) {
  std::string fields = R"("a": 1)";
  for (int i = 0; i < 900; ++i) fields += ", \"x" + std::to_string(i) + std::string(200, 'y') + "\": 1";
  FakeDoor door;
  const auto exchange = door.post(kChat, body_for(kChat, fields));
  EXPECT_EQ(ignored_in(exchange->json()).size(), 65u);
  EXPECT_LT(exchange->body.size(), 20'000u);
}

TEST(LeftOutTest, UserFieldIsNotReportedIfItSelectsANamespace) {
  FakeDoor door;
  EXPECT_THAT(ignored_in(door.post(kChat, body_for(kChat, R"("user": "ann")"))->json()), ElementsAre("user"));
  door.tell_users_apart();
  EXPECT_THAT(ignored_in(door.post(kChat, body_for(kChat, R"("user": "ann")"))->json()), IsEmpty());
}

TEST(LeftOutTest, ToolsThatAreNotFunctionsAreLeftOut) {
  struct Case {
    const char* path;
    const char* fields;
    std::vector<std::string> ignored;
    size_t n_tools;
  };
  const Case cases[] = {
      {kChat,
       R"("tools": [{"type": "web_search"}, {"type": "function", "function": {"name": "f"}},
        {"type": "custom", "custom": {"name": "patch"}}])",
       {"tools[0]", "tools[2]"},
       1},
      {kChat, R"("tools": [{"function": {"name": "f"}}])", {}, 1},
      {kChat,
       R"("tools": [{"type": "mcp", "server_url": "x"}], "tool_choice": "required")",
       {"tools[0]", "tool_choice"},
       0},
      {kChat,
       R"("tools": [{"type": "custom", "custom": {"name": "p"}}], "tool_choice": {"type": "custom",
        "custom": {"name": "p"}})",
       {"tools[0]", "tool_choice"},
       0},
      {kChat, R"("web_search_options": {"x": 1})", {"web_search_options"}, 0},
      {"/v1/responses",
       R"("tools": [{"type": "function", "name": "f"}, {"type": "web_search"}, {"type": "namespace",
        "name": "n", "tools": []}, {"type": "image_generation"}, {"type": "local_shell"}, {"type": "custom",
        "name": "apply_patch", "format": {}}], "tool_choice": "auto")",
       {"tools[1]", "tools[2]", "tools[3]", "tools[4]", "tools[5]"},
       1},
      {"/v1/responses",
       R"("tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"})",
       {"tools[0]", "tool_choice"},
       0},
      {"/v1/messages",
       R"("tools": [{"name": "f", "input_schema": {"type": "object"}}, {"type": "web_search_20250305",
        "name": "web_search", "max_uses": 8}, {"type": "bash_20250124", "name": "bash"}])",
       {"tools[1]", "tools[2]"},
       1},
      {"/v1/messages",
       R"("tools": [{"type": "web_search_20250305", "name": "ws"}], "tool_choice": {"type": "tool",
        "name": "ws"}, "mcp_servers": [{"url": "x"}])",
       {"mcp_servers", "tools[0]", "tool_choice"},
       0},
      {"/api/chat", R"("tools": [{"type": "web_search"}])", {"tools[0]"}, 0},
  };
  for (const Case& one : cases) {
    FakeDoor door;
    const auto exchange = door.post(one.path, body_for(one.path, one.fields));
    ASSERT_EQ(exchange->status, 200) << one.fields << exchange->body;
    EXPECT_EQ(ignored_in(exchange->json()), one.ignored) << one.fields;
    EXPECT_EQ(door.last().tools.size(), one.n_tools) << one.fields;
    if (one.n_tools == 0) {
      EXPECT_EQ(door.last().tool_choice.kind, ToolChoice::Kind::kAuto) << one.fields;
    }
  }
  // The others are still checked.
  FakeDoor door;
  EXPECT_EQ(door.post(kChat, body_for(kChat, R"("tools": [{"type": "web_search"}, {"type": "function"}])"))
                ->json()["error"]["param"],
            "tools[1].function");
  const Json named = door.post("/v1/messages", body_for("/v1/messages", R"("tools": [{"type": "x_1", "name": "ws"}])"))
                         ->json()["ibid"]["ignored"][0];
  EXPECT_EQ(named["name"], "ws");
}

TEST(LeftOutTest, ToolsWithoutATypeAreReadByTheirFields) {
  FakeDoor door;
  const auto exchange = door.post(kChat, body_for(kChat, R"("tools": [{"googleSearch": {}},
      {"name": "f", "description": "d", "parameters": {"type": "object"}}, {"type": "function", "name": "g"}])"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_THAT(ignored_in(exchange->json()), ElementsAre("tools[0]"));
  ASSERT_EQ(door.last().tools.size(), 2u);
  EXPECT_EQ(json_to_string(door.last().tools[0]["function"]),
            R"({"name":"f","description":"d","parameters":{"type":"object"}})");
  EXPECT_EQ(door.last().tools[1]["function"]["name"], "g");
  EXPECT_EQ(door.post(kChat, body_for(kChat, R"("tools": [{"name": "f", "parameters": 5}])"))->json()["error"]["param"],
            "tools[0].parameters");
}

TEST(LeftOutTest, PartsWithoutATypeAreRead) {
  FakeDoor door;
  const auto exchange =
      door.post(kChat, std::string(R"({"messages": [{"role": "user", "content": ["a", {"text": "b"}]}]})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_EQ(*content_of(door.last().messages[0]), "a\nb");
  EXPECT_EQ(door.post(kChat, std::string(R"({"messages": [{"role": "user"}]})"))->status, 400);
  EXPECT_EQ(door.post(kChat, std::string(R"({"messages": [{"role": "user", "content": [{"x": 1}]}]})"))->status, 400);
}

TEST(LeftOutTest, ToolResultsWithoutAnOutputAreAccepted) {
  FakeDoor door;
  const auto exchange = door.post("/v1/responses", std::string(R"({"input": [{"role": "user", "content": "a"},
      {"type": "tool_search_call", "call_id": "t", "arguments": {}},
      {"type": "tool_search_output", "call_id": "t", "tools": [{"name": "f"}]},
      {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "x"}},
      {"type": "apply_patch_call_output", "call_id": "p", "status": "completed", "output": null},
      {"role": "user", "content": "b"}]})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_EQ(*content_of(door.last().messages[2]), R"([{"name":"f"}])");
  EXPECT_EQ(*content_of(door.last().messages[4]), "");
  EXPECT_EQ(door.post("/v1/responses", std::string(R"({"input": [{"type": "function_call", "call_id": "c", "name": "f",
      "arguments": "{}"}, {"type": "function_call_output", "call_id": "c"}]})"))
                ->status,
            400);
}

TEST(LeftOutTest, NamedSamplersAreSwitchedOnAndTheirOrderIsReportedAsIgnored) {
  FakeDoor door;
  const auto exchange = door.post(kChat, body_for(kChat, R"("top_p": 0.5, "top_k": 7, "min_p": 0.2,
      "samplers": ["temperature", "top_p", "top_k"])"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_THAT(ignored_in(exchange->json()), ElementsAre("samplers"));
  EXPECT_EQ(door.last().options.sampler.top_k, 7u);
  EXPECT_EQ(door.last().options.sampler.min_p, 0);
  const auto other = door.post(kChat, body_for(kChat, R"("sampler_priority": ["top_k", "temperature"],
      "sampler_order": [6, 0, 1, 3, 4, 2, 5])"));
  ASSERT_EQ(other->status, 200) << other->body;
  EXPECT_THAT(ignored_in(other->json()), ElementsAre("sampler_priority", "sampler_order"));
}

TEST(LeftOutTest, ItemsOfUnsupportedToolsAreShownOrLeftOut) {
  FakeDoor door;
  const auto exchange = door.post("/v1/responses", std::string(R"({"input": [
    {"role": "user", "content": "a"},
    {"type": "reasoning", "encrypted_content": "zz", "summary": []},
    {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
    {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
    {"type": "local_shell_call", "call_id": "c2", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "call_id": "c2", "output": "x"},
    {"type": "shell_call_output", "call_id": "unknown", "output": [{"stdout": "y"}]},
    {"type": "web_search_call", "id": "ws", "status": "completed"},
    {"type": "compaction", "encrypted_content": "zz"},
    {"role": "user", "content": "b"}]})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_THAT(ignored_in(exchange->json()), ElementsAre("input[6]", "input[7]", "input[8]"));
  EXPECT_EQ(json_to_string(door.last().messages),
            R"([{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":)"
            R"("function","function":{"name":"apply_patch","arguments":"{\"input\":\"*** Begin\"}"}}]},)"
            R"({"role":"tool","tool_call_id":"c1","content":"ok"},{"role":"assistant","content":"","tool_calls":)"
            R"([{"id":"c2","type":"function","function":{"name":"local_shell","arguments":)"
            R"("{\"type\":\"exec\",\"command\":[\"ls\"]}"}}]},{"role":"tool","tool_call_id":"c2","content":"x"},)"
            R"({"role":"user","content":"b"}])");
  // They are stored, and reported only for the request that has them.
  const Json next =
      door.post("/v1/responses", Json{{"input", "c"}, {"previous_response_id", exchange->json()["id"]}})->json();
  EXPECT_THAT(ignored_in(next), IsEmpty());
  EXPECT_EQ(door.last().messages.size(), 8u);
  EXPECT_EQ(
      door.post("/v1/responses", std::string(R"({"input": [{"type": 5, "role": "user", "content": "x"}]})"))->status,
      400);
}

TEST(LeftOutTest, BlocksAndPartsOfUnsupportedToolsAreLeftOut) {
  FakeDoor door;
  const auto exchange = door.post("/v1/messages", std::string(R"({"max_tokens": 5, "messages": [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
      {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}, {"type": "text", "text": "found"}]},
    {"role": "user", "content": [{"type": "container_upload", "x": 1}, {"type": "document", "source":
      {"type": "text", "media_type": "text/plain", "data": "doc"}}, {"type": "text", "text": "go on"}]}]})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_THAT(ignored_in(exchange->json()),
              ElementsAre("messages[1].content[0]", "messages[1].content[1]", "messages[2].content[0]"));
  EXPECT_EQ(json_to_string(door.last().messages),
            R"([{"role":"user","content":"q"},{"role":"assistant","content":"found"},)"
            R"({"role":"user","content":"doc\ngo on"}])");
  EXPECT_THAT(ignored_in(door.post(kChat, std::string(R"({"messages": [{"role": "user", "content":
    [{"type": "text", "text": "a"}, {"type": "widget"}]}]})"))
                             ->json()),
              ElementsAre("messages[0].content[1]"));
}

TEST(LeftOutTest, SystemMessagesMayBeAnywhereInTheHistory) {
  FakeDoor door;
  ASSERT_EQ(door.post("/v1/messages", std::string(R"({"max_tokens": 5, "system": "s", "messages": [
    {"role": "user", "content": "a"}, {"role": "system", "content": [{"type": "text", "text": "b"}]}]})"))
                ->status,
            200);
  EXPECT_EQ(json_to_string(door.last().messages), R"([{"role":"system","content":"s"},{"role":"user","content":"a"},)"
                                                  R"({"role":"system","content":"b"}])");
  for (const char* messages : {R"([{"role": "system", "content": "x"}])", R"([{"role": "developer", "content": "x"}])",
                               R"([{"role": "user", "content": "x"}, {"role": "developer", "content": "y"}])"}) {
    EXPECT_EQ(door.post(kChat, R"({"messages": )" + std::string(messages) + "}")->status, 200) << messages;
    EXPECT_EQ(door.post("/api/chat", R"({"messages": )" + std::string(messages) + "}")->status, 200) << messages;
    EXPECT_EQ(door.post("/v1/responses", R"({"input": )" + std::string(messages) + "}")->status, 200) << messages;
  }
}

TEST(LeftOutTest, OlderFunctionMessagesAreConverted) {
  FakeDoor door;
  ASSERT_EQ(door.post(kChat, std::string(R"({"messages": [{"role": "user", "content": "w?"},
    {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"a\":1}"}},
    {"role": "function", "name": "f", "content": "sun"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "g",
      "input": "raw"}}]}, {"role": "tool", "tool_call_id": "c", "content": "x"}]})"))
                ->status,
            200);
  const Json& messages = door.last().messages;
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"], R"({"a":1})");
  EXPECT_EQ(messages[2]["role"], "tool");
  EXPECT_EQ(messages[2]["name"], "f");
  EXPECT_EQ(messages[3]["tool_calls"][0]["function"]["arguments"], R"({"input":"raw"})");
}

TEST(LeftOutTest, HeaderLinesThatClientsAddToTheSystemMessageAreDropped) {
  const std::string line = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;";
  const std::pair<std::string, std::string> cases[] = {
      {line + "\nBe brief.", "Be brief."},
      {line + "\r\n" + line + "\nBe brief.", "Be brief."},
      {"X-Request-Id: 5\nBe brief.", "Be brief."},
      {"cc_version=2; cch=1;\nBe brief.", "Be brief."},
      {"\n" + line + "\n\nBe brief.", "\nBe brief."},
      {"Be brief.\n" + line, "Be brief.\n" + line},
      {"x-ray: a picture\nBe brief.", "x-ray: a picture\nBe brief."},
      {"x-anthropic- is a prefix", "x-anthropic- is a prefix"},
  };
  for (const auto& [sent, kept] : cases) {
    FakeDoor door;
    const Json system = make_message(Role::kSystem, sent), user = make_message(Role::kUser, "hi");
    const auto exchange = door.post(kChat, Json{{"messages", Json::array({system, user})}});
    EXPECT_EQ(door.last().messages[0]["content"], kept);
    EXPECT_EQ(ignored_in(exchange->json()).size(), sent == kept ? 0u : 1u) << sent;
    door.post("/v1/messages", Json{{"max_tokens", 5}, {"system", sent}, {"messages", Json::array({user})}});
    EXPECT_EQ(door.last().messages[0]["content"], kept);
    door.post("/v1/responses", Json{{"instructions", sent}, {"input", "hi"}});
    EXPECT_EQ(door.last().messages[0]["content"], kept);
    door.change_site([](Site& site) { site.keeps_client_lines = true; });
    door.post("/v1/messages", Json{{"max_tokens", 5}, {"system", sent}, {"messages", Json::array({user})}});
    EXPECT_EQ(door.last().messages[0]["content"], sent);
  }
  FakeDoor door;
  const Json blocks = Json::array({{{"type", "text"}, {"text", line}}, {{"type", "text"}, {"text", "Be brief."}}});
  const Json user = make_message(Role::kUser, "hi");
  door.post("/v1/messages", Json{{"max_tokens", 5}, {"system", blocks}, {"messages", Json::array({user})}});
  EXPECT_EQ(door.last().messages[0]["content"], "Be brief.");
  door.post("/v1/messages", Json{{"max_tokens", 5}, {"system", line}, {"messages", Json::array({user})}});
  EXPECT_EQ(door.last().messages.size(), 1u);
}

TEST(LeftOutTest, SingleModelOfTheServerAnswersToEveryName) {
  const std::string fields = R"("model": "nobody")";
  for (const char* path : {kChat, "/v1/messages", "/v1/responses", "/api/chat", "/v1/completions", "/completion"}) {
    FakeDoor door;
    door.backend->has_one_model = true;
    const auto exchange = door.post(path, body_for(path, fields));
    ASSERT_EQ(exchange->status, 200) << exchange->body;
    EXPECT_EQ(door.last().model, "");
    EXPECT_THAT(ignored_in(exchange->json()), ElementsAre("model")) << path;
    door.change_site([](Site& site) { site.checks_model_names = true; });
    door.post(path, body_for(path, fields));
    EXPECT_EQ(door.last().model, "nobody") << "the service refuses it";
  }
  FakeDoor two;
  two.post(kChat, body_for(kChat, fields));
  EXPECT_EQ(two.last().model, "nobody");
}

TEST(LeftOutTest, ContextFullErrorHasTheWordsThatClientsLookFor) {
  const Status full(ErrorCode::kContextFull,
                    "with this message the conversation has 6033 tokens, the context has room for 4096; shorten it");
  FakeDoor door;
  door.backend->script = [&](const AnswerRequest&, AnswerListener& listener) { listener.end(full); };
  for (const char* path : {kChat, "/v1/completions", "/v1/responses", "/completion", "/chat/completions"}) {
    const auto exchange = door.post(path, body_for(path == std::string("/chat/completions") ? kChat : path, ""));
    EXPECT_EQ(exchange->status, 400);
    const Json error = exchange->json()["error"];
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("This model's maximum context length is 4096 tokens, "));
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("(context_length_exceeded)"));
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["n_prompt_tokens"], 6033);
    EXPECT_EQ(error["n_ctx"], 4096);
    const bool is_llama = std::string_view(path).substr(0, 4) != "/v1/";
    EXPECT_EQ(error["type"], is_llama ? "exceed_context_size_error" : "invalid_request_error") << path;
  }
  EXPECT_EQ(door.post("/v1/messages", body_for("/v1/messages", ""))->json()["error"]["message"],
            "prompt is too long: 6033 tokens > 4096 maximum");
  EXPECT_THAT(door.post("/api/chat", body_for("/api/chat", ""))->json()["error"].get<std::string>(),
              HasSubstr("maximum context length is 4096 tokens"));
}

TEST(LeftOutTest, ResponseFormatWithARequiredCallIsReportedAsIgnored) {
  FakeDoor door;
  const auto exchange = door.post(kChat, body_for(kChat, R"("tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "required", "response_format": {"type": "json_object"})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_THAT(ignored_in(exchange->json()), ElementsAre("response_format"));
}

}  // namespace
}  // namespace ibid::serve
