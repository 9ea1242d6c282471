#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

TEST(LlamaServerTest, CompletionReportsItsStopReason) {
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

TEST(LlamaServerTest, CompletionReportsItsSamplingOptions) {
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
  EXPECT_EQ(settings["ignore_eos"], false);
  EXPECT_EQ(settings["logit_bias"], Json::array());
  for (const char* off : {"dynatemp_range", "mirostat", "adaptive_target", "top_n_sigma"}) {
    EXPECT_LE(settings[off].get<double>(), 0) << off;
  }
  const Json endless = door.post("/completion", std::string(R"({"prompt": "x", "ignore_eos": true})"))->json();
  EXPECT_EQ(endless["generation_settings"]["ignore_eos"], true);
  Json banned = Json::array();
  const FakeTokenizer tokenizer;
  for (const TokenId id : tokenizer.end_of_turn()) banned.push_back({{"token", id}, {"bias", Json()}});
  EXPECT_FALSE(banned.empty());
  EXPECT_EQ(endless["generation_settings"]["logit_bias"], banned);
  const auto events = door.post("/completion", body + R"(, "stream": true})")->events();
  EXPECT_FALSE(events.front().contains("generation_settings"));
  EXPECT_EQ(events.back()["generation_settings"]["temperature"], 0.5);
  EXPECT_EQ(events.back()["generation_settings"]["stream"], true);
  EXPECT_EQ(door.post("/completion", std::string(R"({"prompt": "x"})"))->json()["generation_settings"]["n_predict"],
            -1);
}

TEST(LlamaServerTest, StreamHasPartsAndAFinalEvent) {
  FakeDoor door;
  const auto events = door.post("/completion", std::string(R"({"prompt": [1, 2], "stream": true})"))->events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["content"], "He");
  EXPECT_EQ(events[0]["stop"], false);
  EXPECT_EQ(events[2]["stop"], true);
}

TEST(LlamaServerTest, TokenizeAndDetokenizeEndpointsWork) {
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
  EXPECT_EQ(props["model_path"], "/models/tiny.gguf");
  EXPECT_EQ(props["total_slots"], 1);
}

TEST(LlamaServerTest, PromptsOfAllFormsAreRead) {
  const std::pair<const char*, size_t> cases[] = {
      {R"("a")", 1},
      {R"([1, 2])", 1},
      {R"([1, "a", 2])", 1},
      {R"({"prompt_string": "a"})", 1},
      {R"({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]})", 1},
      {R"(["a"])", 1},
      {R"(["a", "b"])", 2},
      {R"(["a", [1, 2]])", 2},
      {R"([[1, "a"], [2]])", 2},
      {R"([[1], {"prompt_string": "a", "multimodal_data": []}, "b"])", 3},
  };
  for (const auto& [prompt, n] : cases) {
    FakeDoor door;
    const auto exchange = door.post("/completion", R"({"prompt": )" + std::string(prompt) + "}");
    ASSERT_EQ(exchange->status, 200) << prompt << exchange->body;
    EXPECT_EQ(door.backend->requests.size(), n) << prompt;
    const Json json = exchange->json();
    EXPECT_EQ(json.is_array(), n > 1) << prompt;
    const Json& last = json.is_array() ? json.back() : json;
    EXPECT_EQ(last["index"], n - 1);
    EXPECT_EQ(last["content"], "Hello");
    const auto stream = door.post("/completion", R"({"stream": true, "prompt": )" + std::string(prompt) + "}");
    EXPECT_EQ(stream->events().size(), 3 * n) << prompt;
  }
  FakeDoor door;
  door.post("/completion", std::string(R"({"prompt": [1, 2, "a", 3]})"));
  const PromptPieces pieces = std::get<PromptPieces>(*door.last().prompt);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(std::get<Tokens>(pieces[0]), (Tokens{1, 2}));
  EXPECT_EQ(std::get<std::string>(pieces[1]), "a");
  const std::pair<const char*, const char*> bad[] = {
      {R"([])", "prompt"},
      {R"([[]])", "prompt[0]"},
      {R"([1, "a", -1])", "prompt[2]"},
      {R"(["a", [1, null]])", "prompt[1][1]"},
      {R"({"prompt_string": ""})", "prompt.prompt_string"},
      {R"({"prompt_string": "a", "multimodal_data": ["x"]})", "prompt.multimodal_data"},
      {R"({"content": "a"})", "prompt.content"},
      {R"({"content": []})", "prompt.content"},
      {R"({"content": [{"type": "text", "text": ""}]})", "prompt.content"},
      {R"(["a", {"content": [{"type": "text", "text": 1}]}])", "prompt[1].content[0].text"},
      {R"({"content": [{"type": "image_url", "image_url": {"url": "data:,"}}]})", "prompt.content[0].type"},
      {R"({"content": [5]})", "prompt.content[0].type"},
      {R"(5)", "prompt"}};
  for (const auto& [prompt, param] : bad) {
    EXPECT_EQ(door.post("/completion", R"({"prompt": )" + std::string(prompt) + "}")->json()["error"]["param"], param)
        << prompt;
  }
}

TEST(LlamaServerTest, CompletionHasTheRequestedFields) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("a\nb");
    answer.logprobs = {{.id = 5, .logprob = -1}, {.id = 6, .logprob = -2}};
    FakeBackend::say(request, listener, answer);
  };
  const Json plain = door.post("/completion", std::string(R"({"prompt": "x"})"))->json();
  EXPECT_EQ(plain["has_new_line"], true);
  EXPECT_EQ(plain["truncated"], false);
  EXPECT_EQ(plain["tokens"], Json::array());
  EXPECT_FALSE(plain.contains("completion_probabilities"));
  const Json asked = door.post("/completion", std::string(R"({"prompt": "x", "return_tokens": true, "logit_bias":
    {"7": 1.5, "8": -100}})"))
                         ->json();
  EXPECT_EQ(asked["tokens"], Json::array({5, 6}));
  EXPECT_FALSE(asked.contains("completion_probabilities")) << "only the ids were requested";
  EXPECT_EQ(json_to_string(asked["generation_settings"]["logit_bias"]),
            R"([{"token":7,"bias":1.5},{"token":8,"bias":null}])");
  door.post("/completion", std::string(R"({"prompt": "x", "logit_bias": [["ab", -2], [" c", false], [7, 1.5]]})"));
  const std::vector<std::pair<std::string, double>> texts = {{"ab", -2}, {" c", -INFINITY}};
  EXPECT_EQ(door.last().text_biases, texts);
  EXPECT_EQ(door.last().options.sampler.logit_bias.at(7), 1.5);
  door.post("/completion", std::string(R"({"prompt": "x", "logit_bias": {"ab": -2, " c": false, "7": 1.5}})"));
  EXPECT_EQ(door.last().text_biases, texts);
  EXPECT_EQ(door.last().options.sampler.logit_bias.at(7), 1.5);
  for (const char* bias : {R"({"": 1})", R"({"ab": true})", R"({"ab": 101})", R"({"-7": 1})"}) {
    EXPECT_EQ(door.post("/completion", std::string(R"({"prompt": "x", "logit_bias": )") + bias + "}")->status, 400)
        << bias;
  }
  const Json few = door.post("/completion", std::string(R"({"prompt": "x", "response_fields":
    ["content", "timings/prompt_n", "nowhere", "content/x", ""]})"))
                       ->json();
  EXPECT_EQ(json_to_string(few), R"({"content":"a\nb","timings/prompt_n":10})");
}

TEST(LlamaServerTest, StreamPartsHaveTokensProgressAndTimings) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("ab");
    answer.logprobs = {{.id = 5, .logprob = -1}, {.id = 6, .logprob = -2}, {.id = 7, .logprob = -3}};
    listener.begin("tiny", 30, fake_tokenizer());
    listener.prefill(20, 30);
    listener.prefill(30, 30);
    for (size_t i = 0; i < 2; ++i) {
      listener.logprobs(0, std::span(answer.logprobs).subspan(i, 1));
      listener.content(0, answer.content.substr(i, 1));
    }
    listener.prompt_tokens(0, Tokens{'p', 'q'});
    listener.answer(0, answer);
    listener.end({});
    EXPECT_EQ(request.options.n_logprobs, 2u);
  };
  const auto events = door.post("/completion", std::string(R"({"prompt": "x", "stream": true, "n_probs": 2,
    "return_progress": true, "timings_per_token": true})"))
                          ->events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["prompt_progress"]["cache"], 20);
  EXPECT_EQ(events[0]["prompt_progress"]["processed"], 20);
  EXPECT_EQ(events[0]["timings"]["prompt_n"], 0);
  EXPECT_EQ(events[0]["timings"]["prompt_ms"], 0.0);
  EXPECT_EQ(events[1]["prompt_progress"]["processed"], 30);
  EXPECT_EQ(events[1]["timings"]["prompt_n"], 10);
  EXPECT_GT(events[1]["timings"]["prompt_ms"], 0.0);
  EXPECT_EQ(events[2]["tokens"], Json::array({5}));
  EXPECT_EQ(events[2]["completion_probabilities"][0]["id"], 5);
  EXPECT_EQ(events[2]["timings"]["predicted_n"], 1);
  EXPECT_EQ(events[2]["timings"]["predicted_per_second"], 0.0) << "the prefill computes the first token";
  EXPECT_EQ(events[3]["tokens"], Json::array({6}));
  EXPECT_EQ(events[3]["timings"]["predicted_n"], 2);
  ASSERT_EQ(events[4]["completion_probabilities"].size(), 1u) << "only the token without text";
  EXPECT_EQ(events[4]["completion_probabilities"][0]["id"], 7);
  EXPECT_EQ(events[4]["prompt"], "pq");
  EXPECT_EQ(events[4]["tokens"], Json::array());
  door.backend->script = nullptr;
  for (const Json& event : door.post("/completion", std::string(R"({"prompt": "x", "stream": true})"))->events()) {
    EXPECT_FALSE(event.contains("prompt_progress"));
    EXPECT_EQ(event.contains("timings"), event["stop"] == true);
  }
  EXPECT_EQ(door.last().options.n_logprobs, 0u) << "the ids come with them";
}

TEST(LlamaServerTest, ProbabilitiesAfterSamplingAreNamedProb) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("a");
    answer.logprobs = {{.id = 5, .logprob = -1, .top = {{5, -1}, {6, -2}}}};
    FakeBackend::say(request, listener, answer);
    EXPECT_TRUE(request.options.logprobs_after_sampling);
  };
  const Json json = door.post("/completion", std::string(R"({"prompt": "x", "n_probs": 2,
    "post_sampling_probs": true})"))
                        ->json();
  const Json& one = json["completion_probabilities"][0];
  EXPECT_EQ(one["prob"], std::exp(-1.0));
  EXPECT_EQ(one["top_probs"][1]["prob"], std::exp(-2.0));
  EXPECT_EQ(one["top_probs"][1]["id"], 6);
  EXPECT_FALSE(one.contains("logprob") || one.contains("top_logprobs") || one["top_probs"][0].contains("logprob"));
  EXPECT_EQ(json["generation_settings"]["post_sampling_probs"], true);
}

TEST(LlamaServerTest, AnswerThatFillsTheContextIsTruncated) {
  FakeDoor door;
  Answer answer = make_answer("a");
  answer.finish_reason = FinishReason::kLength;
  door.backend->script = [&](const AnswerRequest& request, AnswerListener& listener) {
    FakeBackend::say(request, listener, answer);
  };
  const std::string body = R"({"prompt": "x"})";
  EXPECT_EQ(door.post("/completion", body)->json()["truncated"], true);
  answer.max_tokens = answer.usage.n_decoded;
  EXPECT_EQ(door.post("/completion", body)->json()["truncated"], false);
}

TEST(LlamaServerTest, InfillRequestIsPassedToTheService) {
  FakeDoor door;
  const auto exchange = door.post("/infill", std::string(R"({"input_prefix": "a", "input_suffix": "b", "prompt": "c",
    "input_extra": [{"filename": "f.py", "text": "x"}], "n_predict": 9})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_EQ(exchange->json()["content"], "Hello");
  const Infill gap = std::get<Infill>(*door.last().prompt);
  EXPECT_EQ(gap.prefix, "ac");
  EXPECT_EQ(gap.suffix, "b");
  EXPECT_EQ(gap.files.at(0).name, "f.py");
  EXPECT_EQ(door.last().options.max_tokens, 9u);
  for (const char* path : {"/v1/completions", "/api/generate"}) {
    ASSERT_EQ(door.post(path, std::string(R"({"prompt": "a", "suffix": "b", "stream": false})"))->status, 200) << path;
    EXPECT_EQ(std::get<Infill>(*door.last().prompt).prefix, "a");
  }
  EXPECT_EQ(door.post("/v1/completions", std::string(R"({"prompt": [1], "suffix": "b"})"))->json()["error"]["param"],
            "suffix");
  EXPECT_EQ(door.post("/infill", std::string(R"({"input_extra": [{"filename": "f"}]})"))->json()["error"]["param"],
            "input_extra[0].text");
  EXPECT_EQ(
      door.post("/infill", std::string(R"({"input_extra": [{"filename": 1, "text": "x"}]})"))->json()["error"]["param"],
      "input_extra[0].filename");
}

// The body that llama.vim and llama.vscode send.
TEST(LlamaServerTest, CompletionsOfEditorsAreAnswered) {
  FakeDoor door;
  const auto exchange = door.post("/infill", std::string(R"({"id_slot": 0, "input_prefix": "int f() {\n",
      "input_suffix": "\n}\n", "input_extra": [{"text": "int g();", "filename": "g.h"}], "prompt": "  return ",
      "n_predict": 128, "stop": [], "n_indent": 2, "top_k": 40, "top_p": 0.9, "stream": false,
      "samplers": ["top_k", "top_p", "infill"], "cache_prompt": true, "t_max_prompt_ms": 500, "t_max_predict_ms": 1000,
      "response_fields": ["content", "timings/prompt_n", "timings/predicted_per_second", "truncated",
                          "tokens_cached"]})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  const Json json = exchange->json();
  EXPECT_EQ(json["content"], "Hello");
  EXPECT_TRUE(json["timings/prompt_n"].is_number());
  EXPECT_TRUE(json["timings/predicted_per_second"].is_number());
  std::vector<std::string> ignored;
  for (const IgnoredPart& part : door.last().ignored) ignored.push_back(part.field);
  EXPECT_THAT(ignored,
              testing::UnorderedElementsAre("id_slot", "n_indent", "samplers", "t_max_prompt_ms", "t_max_predict_ms"));
  // The request with which they prefill what will come.
  EXPECT_EQ(door.post("/infill", std::string(R"({"input_prefix": "a", "input_suffix": "b", "input_extra": [],
      "prompt": "", "n_predict": 0, "samplers": [], "cache_prompt": true, "t_max_prompt_ms": 1,
      "t_max_predict_ms": 1, "response_fields": [""]})"))
                ->status,
            200);
}

TEST(LlamaServerTest, SlotsReportContainsNoTexts) {
  FakeDoor door;
  door.change_site([](Site& site) { site.n_parallel = 3; });
  const Json slots = door.send("GET", "/slots")->json();
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(slots[0]["is_processing"], true);
  EXPECT_EQ(slots[1]["is_processing"], false);
  EXPECT_EQ(slots[2]["n_ctx"], 2048);
  EXPECT_EQ(door.send("GET", "/slots?fail_on_no_slot=1")->status, 200);
  door.change_site([](Site& site) { site.n_parallel = 1; });
  EXPECT_EQ(door.send("GET", "/slots?fail_on_no_slot=1")->status, 503);
}

TEST(LlamaServerTest, PathsOfOtherServersAreAnsweredOrRefusedByName) {
  FakeDoor door;
  const std::string chat = R"({"messages": [{"role": "user", "content": "hi"}]})";
  EXPECT_EQ(door.post("/chat/completions", chat)->json()["object"], "chat.completion");
  EXPECT_EQ(door.send("GET", "/models")->json()["object"], "list");
  EXPECT_EQ(door.post("/completions", std::string(R"({"prompt": "x"})"))->json()["content"], "Hello");
  EXPECT_EQ(door.post("/completions", std::string(R"({"prompt": "x", "model": "tiny"})"))->json()["object"],
            "text_completion");
  EXPECT_EQ(door.post("/responses", std::string(R"({"input": "x"})"))->status, 200);
  EXPECT_EQ(door.post("/embeddings", std::string(R"({"input": "x"})"))->status, 200);
  for (const char* path : {"/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"}) {
    EXPECT_EQ(door.post(path, chat)->body, R"({"object":"response.input_tokens","input_tokens":42})");
  }
  EXPECT_EQ(door.post("/v1/responses/input_tokens", std::string(R"({"input": "x"})"))->json()["input_tokens"], 42);
  EXPECT_EQ(door.send("GET", "/lora-adapters")->body, "[]");
  for (const char* path :
       {"/rerank", "/v1/rerank", "/lora-adapters", "/api/push", "/api/create", "/api/copy", "/api/blobs/sha256:1"}) {
    const auto exchange = door.post(path, std::string("{}"));
    EXPECT_EQ(exchange->status, 400) << path << ": clients repeat requests that get a 5xx";
    EXPECT_NE(exchange->body.find("not supported"), std::string::npos) << exchange->body;
  }
  EXPECT_EQ(door.send("DELETE", "/api/delete", R"({"model": "tiny"})")->status, 400);
  EXPECT_EQ(door.post("/api/pull", std::string(R"({"model": "nobody"})"))->status, 400);
  EXPECT_EQ(door.post("/api/pull", std::string(R"({"model": "tiny", "stream": false})"))->json()["status"], "success");
  EXPECT_EQ(door.post("/api/pull", std::string(R"({"name": "tiny"})"))->events().back()["status"], "success");
}

}  // namespace
}  // namespace ibid::serve
