#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

std::string chat_lines(const std::string& fields) {
  return R"({"model": "tiny:latest", "messages": [{"role": "user", "content": "hi"}])" + fields + "}";
}

TEST(OllamaTest, StreamIsJsonLinesAndTheLastLineHasUsage) {
  FakeDoor door;
  const auto exchange = door.post("/api/chat", chat_lines(""));
  EXPECT_EQ(exchange->content_type, "application/x-ndjson");
  const auto lines = exchange->events();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["message"]["content"], "He");
  EXPECT_EQ(lines[0]["message"]["role"], "assistant");
  EXPECT_EQ(lines[0]["done"], false);
  EXPECT_EQ(lines[2]["done"], true);
  EXPECT_EQ(lines[2]["done_reason"], "stop");
  EXPECT_EQ(lines[2]["prompt_eval_count"], 30);
  EXPECT_EQ(lines[2]["prompt_eval_duration"], 100'000'000);
  EXPECT_EQ(lines[2]["eval_count"], 5);
  EXPECT_TRUE(lines[2]["created_at"].get<std::string>().ends_with("Z"));
  EXPECT_EQ(door.last().model, "tiny:latest") << "the host knows the tag";
}

TEST(OllamaTest, OptionsAndFormatsReachTheService) {
  FakeDoor door;
  ASSERT_EQ(door.post("/api/chat", chat_lines(R"(, "stream": false, "format": {"type": "object"}, "think": false,
    "options": {"num_predict": 7, "temperature": 0.2, "repeat_penalty": 1.2, "seed": 3, "stop": ["a"], "num_ctx": 4096,
    "mirostat": 0, "typical_p": 0.9}, "truncate": true, "keep_alive": "5m")"))
                ->status,
            200);
  const AnswerRequest& request = door.last();
  EXPECT_EQ(request.options.max_tokens, 7u);
  EXPECT_EQ(request.options.sampler.temperature, 0.2);
  EXPECT_EQ(request.options.sampler.repetition_penalty, 1.2);
  EXPECT_EQ(request.options.sampler.seed, 3u);
  EXPECT_EQ(request.form.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(request.variables["enable_thinking"], false);
  EXPECT_EQ(request.when_full, WhenFull::kDropOldestTurns);
  FakeDoor other;
  ASSERT_EQ(other.post("/api/chat", chat_lines(R"(, "format": "json", "options": {"num_predict": -1})"))->status, 200);
  EXPECT_EQ(other.last().form.kind, ResponseFormat::Kind::kJsonObject);
  EXPECT_EQ(other.last().options.max_tokens, 0u);
}

TEST(OllamaTest, ToolArgumentsAreObjectsAndThinkingHasItsOwnField) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("");
    answer.reasoning = "hmm";
    answer.tool_calls = {{"c1", "f", "{\"x\": [1]}"}};
    FakeBackend::say(request, listener, answer);
  };
  const Json json = door.post("/api/chat", chat_lines(R"(, "stream": false)"))->json();
  EXPECT_EQ(json["message"]["tool_calls"][0]["function"]["arguments"]["x"][0], 1);
  EXPECT_EQ(json["message"]["thinking"], "hmm");
  const auto lines = door.post("/api/chat", chat_lines(""))->events();
  EXPECT_EQ(lines[0]["message"]["thinking"], "hmm");
  EXPECT_EQ(lines[1]["message"]["tool_calls"][0]["function"]["name"], "f");
  // A client sends the same message back.
  ASSERT_EQ(door.post("/api/chat", std::string(R"({"messages": [{"role": "user", "content": "x"},
    {"role": "assistant", "content": "", "thinking": "hmm", "tool_calls": [{"function": {"name": "f",
     "arguments": {"x": [1]}}}]}, {"role": "tool", "content": "sun", "tool_name": "f"}]})"))
                ->status,
            200);
  EXPECT_EQ(door.last().messages[1]["tool_calls"][0]["function"]["arguments"], "{\"x\":[1]}");
  EXPECT_EQ(door.last().messages[1]["reasoning_content"], "hmm");
  EXPECT_EQ(door.last().messages[2]["name"], "f");
}

TEST(OllamaTest, GenerateEndpointTakesAPromptOrARawText) {
  FakeDoor door;
  const Json json =
      door.post("/api/generate", std::string(R"({"prompt": "hi", "system": "s", "stream": false})"))->json();
  EXPECT_EQ(json["response"], "Hello");
  EXPECT_FALSE(json.contains("message"));
  EXPECT_EQ(door.last().messages.size(), 2u);
  EXPECT_FALSE(door.last().prompt);
  ASSERT_EQ(door.post("/api/generate", std::string(R"({"prompt": "hi", "raw": true})"))->status, 200);
  EXPECT_EQ(std::get<std::string>(*door.last().prompt), "hi");
}

TEST(OllamaTest, KeepAliveIsReadAsADuration) {
  FakeDoor door;
  const auto keep_alive = [&](const std::string& value) {
    const auto exchange =
        door.post("/api/chat", R"({"messages": [{"role": "user", "content": "x"}], "keep_alive": )" + value + "}");
    EXPECT_EQ(exchange->status, 200) << exchange->body;
    return door.last().keep_alive.value().count();
  };
  const std::pair<const char*, int64_t> cases[] = {{"0", 0},
                                                   {"\"0\"", 0},
                                                   {"\"0s\"", 0},
                                                   {"300", 300'000},
                                                   {"0.5", 500},
                                                   {"0.0000001", 1},
                                                   {"\"5m\"", 300'000},
                                                   {"\"1h30m\"", 5'400'000},
                                                   {"\"1.5s\"", 1500},
                                                   {"\"250ms\"", 250},
                                                   {"-1", -1},
                                                   {"\"-1\"", -1},
                                                   {"\"-1m\"", -1},
                                                   {"\"10\"", 10'000},
                                                   {"1e300", 1'000'000'000'000}};
  for (const auto& [value, ms] : cases) EXPECT_EQ(keep_alive(value), ms) << value;
  for (const char* value : {"\"\"", "\"soon\"", "\"5\u00e9\"", "\"5m3\"", "\"--5m\"", "\"inf\"", "true"}) {
    const auto exchange = door.post(
        "/api/chat", R"({"messages": [{"role": "user", "content": "x"}], "keep_alive": )" + std::string(value) + "}");
    EXPECT_EQ(exchange->status, 400) << value;
    EXPECT_NE(exchange->body.find("keep_alive: must be"), std::string::npos) << exchange->body;
  }
  EXPECT_EQ(door.post("/api/chat", std::string(R"({"messages": [{"role": "user", "content": "x"}]})"))->status, 200);
  EXPECT_EQ(door.last().keep_alive, std::nullopt);
}

TEST(OllamaTest, RequestWithoutAPromptLoadsOrUnloadsTheModel) {
  FakeDoor door;
  EXPECT_EQ(door.post("/api/generate", std::string(R"({"model": "tiny"})"))->json()["done_reason"], "load");
  EXPECT_EQ(door.post("/api/chat", std::string("{}"))->json()["model"], "tiny") << "the first model, with its name";
  EXPECT_EQ(door.post("/api/chat", std::string(R"({"model": "tiny", "messages": [], "keep_alive": 0})"))
                ->json()["done_reason"],
            "unload");
  EXPECT_EQ(door.backend->unloaded.size(), 1u);
  EXPECT_EQ(door.post("/api/generate", std::string(R"({"model": "nobody"})"))->status, 404);
  ASSERT_EQ(door.backend->calls.size(), 2u);
  EXPECT_EQ(door.backend->calls[0].cache_namespace, "us");
  EXPECT_TRUE(door.backend->requests.empty());
}

TEST(OllamaTest, ModelsAreListedAndShown) {
  FakeDoor door;
  EXPECT_EQ(door.send("GET", "/api/tags")->json()["models"].size(), 2u);
  const Json running = door.send("GET", "/api/ps")->json()["models"];
  ASSERT_EQ(running.size(), 1u);
  EXPECT_TRUE(running[0]["expires_at"].get<std::string>().starts_with("2262-")) << "never";
  EXPECT_EQ(door.send("GET", "/api/version")->json()["version"], "0.12.11") << "Ollama's";
  const Json shown = door.post("/api/show", std::string(R"({"model": "tiny"})"))->json();
  EXPECT_EQ(shown["model_info"]["ibid.context_length"], 2048);
  EXPECT_EQ(shown["model_info"]["general.basename"], "tiny") << "Copilot shows it";
  EXPECT_EQ(shown["details"]["family"], "");
  EXPECT_EQ(door.post("/api/show", std::string(R"({"model": "x"})"))->status, 404);
  EXPECT_EQ(door.post("/api/show", std::string("{}"))->status, 400);
}

TEST(OllamaTest, UnloadedModelIsDescribedFromItsFile) {
  FakeDoor door;
  door.backend->other_header = {.format = "gguf",
                                .family = "llama",
                                .basename = "Tiny",
                                .n_params = 134'515'008,
                                .quantization = "Q4_K_M",
                                .trained_context = 8192,
                                .embedding_dim = 576,
                                .chat_template = "{{ tools }}"};
  const Json shown = door.post("/api/show", std::string(R"({"model": "other"})"))->json();
  EXPECT_EQ(json_to_string(shown["details"]),
            R"({"parent_model":"","format":"gguf","family":"llama","families":["llama"],"parameter_size":"134.52M",)"
            R"("quantization_level":"Q4_K_M"})");
  EXPECT_EQ(
      json_to_string(shown["model_info"]),
      R"({"general.architecture":"llama","general.basename":"Tiny","general.parameter_count":134515008,"llama.context_length":8192,)"
      R"("llama.embedding_length":576})");
  EXPECT_EQ(shown["template"], "{{ tools }}");
  EXPECT_EQ(json_to_string(shown["capabilities"]), R"(["completion","tools"])");
  const Json listed = door.send("GET", "/api/tags")->json()["models"];
  EXPECT_EQ(listed[1]["details"]["quantization_level"], "Q4_K_M");
  // The ollama program ends if a digest is shorter than the 12 digits that it prints.
  EXPECT_EQ(listed[1]["digest"].get<std::string>().size(), 64u);
  EXPECT_NE(listed[0]["digest"], listed[1]["digest"]);
  for (const auto& [n, text] : std::vector<std::pair<uint64_t, const char*>>{
           {8'000'000'000, "8B"}, {7'615'616'512, "7.6B"}, {22'000'000, "22M"}, {80'432, "80.43K"}, {12, "12"}}) {
    door.backend->other_header.n_params = n;
    EXPECT_EQ(door.post("/api/show", std::string(R"({"model": "other"})"))->json()["details"]["parameter_size"], text);
  }
}

// As in Ollama's runner, none of these three values is a limit.
TEST(OllamaTest, NumPredictOfZeroOrBelowIsUnlimited) {
  for (const char* none : {"0", "-1", "-2"}) {
    FakeDoor door;
    door.backend->defaults.max_tokens = 5;
    ASSERT_EQ(door.post("/api/chat", chat_lines(std::string(R"(, "options": {"num_predict": )") + none + "}"))->status,
              200);
    EXPECT_EQ(door.last().options.max_tokens, 0u) << none;
    EXPECT_EQ(door.last().n, 1u);
  }
  FakeDoor door;
  EXPECT_EQ(door.post("/api/chat", chat_lines(R"(, "options": {"num_predict": -3})"))->status, 400);
}

TEST(OllamaTest, ErrorResponseIsOneText) {
  const std::pair<const char*, const char*> cases[] = {{R"(, "options": {"top_p": 3})", "options.top_p: "},
                                                       {R"(, "options": {"tfs_z": 0.5})", "options.tfs_z: "},
                                                       {R"(, "format": "xml")", "format: "},
                                                       {R"(, "think": 5)", "think: "},
                                                       {R"(, "keep_alive": [])", "keep_alive: "},
                                                       {R"(, "options": 5)", "options: "}};
  for (const auto& [fields, beginning] : cases) {
    FakeDoor door;
    const auto exchange = door.post("/api/chat", chat_lines(fields));
    EXPECT_EQ(exchange->status, 400) << fields;
    EXPECT_TRUE(exchange->json()["error"].get<std::string>().starts_with(beginning)) << exchange->body;
  }
  FakeDoor door;
  EXPECT_EQ(door.post("/api/chat", std::string(R"({"messages": [{"role": "user", "content": "x", "images": ["a"]}]})"))
                ->status,
            400);
  EXPECT_EQ(door.post("/api/generate", std::string(R"({"prompt": "x", "images": ["a"]})"))->status, 400);
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 3, fake_tokenizer());
    listener.content(0, "He");
    listener.end(Status(ErrorCode::kOutOfMemory, "no pages"));
  };
  EXPECT_EQ(door.post("/api/chat", chat_lines(""))->events().back()["error"], "no pages");
}

}  // namespace
}  // namespace ibid::serve
