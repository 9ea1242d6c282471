#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

constexpr const char* kCompletions = "/v1/completions";

TEST(OpenAiCompletionsTest, WholeAnswerIsATextCompletion) {
  FakeDoor door;
  const auto exchange = door.post(kCompletions, std::string(R"({"prompt": "once", "max_tokens": 3})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  const Json json = exchange->json();
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["choices"][0]["text"], "Hello");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 30);
  EXPECT_EQ(std::get<std::string>(*door.last().prompt), "once");
  EXPECT_EQ(door.last().options.max_tokens, 3u);
}

TEST(OpenAiCompletionsTest, PromptsAreTextsOrTokens) {
  const std::pair<const char*, Tokens> prompts[] = {{"[1, 2, 3]", {1, 2, 3}}, {"[[4, 5]]", {4, 5}}};
  for (const auto& [prompt, ids] : prompts) {
    FakeDoor door;
    ASSERT_EQ(door.post(kCompletions, std::string(R"({"prompt": )") + prompt + "}")->status, 200);
    EXPECT_EQ(std::get<Tokens>(*door.last().prompt), ids);
  }
  FakeDoor door;
  ASSERT_EQ(door.post(kCompletions, std::string(R"({"prompt": ["a"]})"))->status, 200);
  EXPECT_EQ(std::get<std::string>(*door.last().prompt), "a");
  const std::pair<const char*, const char*> bad[] = {{R"("")", "prompt"},
                                                     {"[]", "prompt"},
                                                     {"5", "prompt"},
                                                     {R"(["a", ""])", "prompt[1]"},
                                                     {"[[1], [-1]]", "prompt[1][0]"},
                                                     {"[[]]", "prompt[0]"},
                                                     {"[-1]", "prompt[0]"},
                                                     {"[1, 1.5]", "prompt[1]"},
                                                     {"[[[1]]]", "prompt[0]"},
                                                     {"[2147483648]", "prompt[0]"}};
  for (const auto& [prompt, param] : bad) {
    const auto exchange = door.post(kCompletions, std::string(R"({"prompt": )") + prompt + "}");
    EXPECT_EQ(exchange->status, 400) << prompt;
    EXPECT_EQ(exchange->json()["error"]["param"], param) << prompt;
  }
  EXPECT_EQ(door.post(kCompletions, std::string("{}"))->json()["error"]["param"], "prompt");
}

// Two answers for each prompt, in OpenAI's numbering.
TEST(OpenAiCompletionsTest, ChoicesAreNumberedByPromptThenAnswer) {
  const auto say = [](const AnswerRequest& request, AnswerListener& listener) {
    const std::string prompt = std::get<std::string>(*request.prompt);
    listener.begin("tiny", 30, fake_tokenizer());
    for (size_t i = request.n; i-- > 0;) {
      const std::string text = prompt + std::to_string(i);
      listener.content(i, text);
      listener.answer(i, make_answer(text));
    }
    listener.end({});
  };
  FakeDoor door;
  door.backend->script = say;
  const std::string body =
      R"({"prompt": ["a", "b", "c"], "n": 2, "echo": true, "stream_options": {"include_usage": true})";
  const auto exchange = door.post(kCompletions, body + "}");
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  const Json json = exchange->json();
  const std::vector<std::string> wanted = {"aa0", "aa1", "bb0", "bb1", "cc0", "cc1"};
  ASSERT_EQ(json["choices"].size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(json["choices"][i]["index"], i);
    EXPECT_EQ(json["choices"][i]["text"], wanted[i]);
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 90);
  EXPECT_EQ(json["usage"]["completion_tokens"], 30);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 60);
  EXPECT_EQ(door.backend->requests.size(), 3u);

  std::vector<std::string> texts(wanted.size());
  std::vector<size_t> n_ends(wanted.size());
  Json usage;
  for (const Json& event : door.post(kCompletions, body + R"(, "stream": true})")->events()) {
    if (event.is_object() && event["choices"].empty()) usage = event["usage"];
    if (!event.is_object() || event["choices"].empty()) continue;
    const Json& choice = event["choices"][0];
    texts.at(choice["index"].get<size_t>()) += choice["text"].get<std::string>();
    n_ends.at(choice["index"].get<size_t>()) += choice["finish_reason"].is_null() ? 0 : 1;
  }
  EXPECT_EQ(texts, wanted);
  EXPECT_EQ(n_ends, std::vector<size_t>(wanted.size(), 1));
  EXPECT_EQ(usage["prompt_tokens"], 90);
}

TEST(OpenAiCompletionsTest, ErrorOfOnePromptStopsTheOthersAndIsReturned) {
  FakeDoor door;
  door.backend->script = [&](const AnswerRequest& request, AnswerListener& listener) {
    if (std::get<std::string>(*request.prompt) == "b") {
      return listener.end(Status(ErrorCode::kContextFull, "the prompt has 9 tokens, the context 8"));
    }
    EXPECT_EQ(door.backend->stops.back().stop_requested(), std::get<std::string>(*request.prompt) == "c");
    FakeBackend::say(request, listener, make_answer("Hello"));
  };
  const auto exchange = door.post(kCompletions, std::string(R"({"prompt": ["a", "b", "c"]})"));
  EXPECT_EQ(exchange->status, 400);
  EXPECT_EQ(exchange->json()["error"]["code"], "context_length_exceeded");
  Json body = {{"prompt", Json::array()}};
  for (size_t i = 0; i <= 128; ++i) body["prompt"].push_back("a");
  EXPECT_EQ(door.post(kCompletions, body)->json()["error"]["param"], "prompt");
}

// Says "!" after a prompt, whose first tokens it scores if asked to.
void say_with_scores(const AnswerRequest& request, AnswerListener& listener) {
  const std::string& prompt = std::get<std::string>(*request.prompt);
  listener.begin("tiny", prompt.size(), fake_tokenizer());
  if (request.n_prompt_logprobs) {
    PromptScores scores;
    for (size_t i = 0; i < prompt.size(); ++i) {
      const auto id = static_cast<TokenId>(static_cast<unsigned char>(prompt[i]));
      scores.ids.push_back(id);
      if (i == 0) continue;
      TokenLogprobs token{id, -static_cast<double>(i), {{'z', -0.25}, {id, -static_cast<double>(i)}}};
      token.top.resize(*request.n_prompt_logprobs);
      scores.scored.tokens.push_back(token);
      scores.scored.ranks.push_back(2);
    }
    listener.prompt_scores(0, std::make_shared<PromptScores>(std::move(scores)));
  }
  Answer answer = make_answer(request.n == 0 ? "" : "!");
  if (request.n > 0 && request.options.n_logprobs) answer.logprobs = {{'!', -0.5, {{'!', -0.5}}}};
  for (size_t i = 0; i < std::max<size_t>(request.n, 1); ++i) {
    listener.logprobs(i, answer.logprobs);
    listener.content(i, answer.content);
    listener.answer(i, answer);
  }
  listener.end({});
}

TEST(OpenAiCompletionsTest, EchoWithLogprobsIncludesLogprobsOfThePrompt) {
  FakeDoor door;
  door.backend->script = say_with_scores;
  const Json wanted = *parse_json(
      R"({"tokens": ["a", "b", "c", "!"], "token_logprobs": [null, -1.0, -2.0, -0.5],
          "top_logprobs": [null, {"b": -1.0, "z": -0.25}, {"c": -2.0, "z": -0.25}, {"!": -0.5}], "text_offset": [0, 1, 2, 3]})",
      "the expected value");
  const std::string body = R"({"prompt": ["abc", "d"], "echo": true, "logprobs": 1)";
  const auto whole = door.post(kCompletions, body + "}");
  ASSERT_EQ(whole->status, 200) << whole->body;
  const Json choices = whole->json()["choices"];
  EXPECT_EQ(choices[0]["text"], "abc!");
  EXPECT_EQ(choices[0]["logprobs"], wanted);
  EXPECT_EQ(choices[1]["logprobs"]["tokens"], Json({"d", "!"}));
  EXPECT_EQ(choices[1]["logprobs"]["token_logprobs"], Json({nullptr, -0.5}));
  EXPECT_TRUE(choices[0]["prompt_logprobs"].is_null());
  const Json by_id = door.post(kCompletions, body + R"(, "return_tokens_as_token_ids": true})")->json()["choices"][0];
  EXPECT_EQ(by_id["logprobs"]["tokens"], Json({"token_id:97", "token_id:98", "token_id:99", "token_id:33"}));
  EXPECT_EQ(by_id["logprobs"]["top_logprobs"][3], Json({{"token_id:33", -0.5}}));
  EXPECT_EQ(by_id["logprobs"]["text_offset"], wanted["text_offset"]);

  Json streamed = Json::object();
  std::string text;
  for (const Json& event : door.post(kCompletions, body + R"(, "stream": true})")->events()) {
    if (!event.is_object() || event["choices"].empty() || event["choices"][0]["index"] != 0) continue;
    const Json& choice = event["choices"][0];
    text += choice["text"].get<std::string>();
    if (choice["logprobs"].is_null()) continue;
    for (const auto& [key, list] : choice["logprobs"].items()) {
      for (const Json& value : list) streamed[key].push_back(value);
    }
  }
  EXPECT_EQ(text, "abc!");
  EXPECT_EQ(streamed, wanted);

  // No answer: only the prompt and its scores.
  const auto none =
      door.post(kCompletions, std::string(R"({"prompt": "abc", "echo": true, "logprobs": 0, "max_tokens": 0})"));
  ASSERT_EQ(none->status, 200) << none->body;
  EXPECT_EQ(door.last().n, 0u);
  EXPECT_EQ(none->json()["choices"][0]["text"], "abc");
  EXPECT_EQ(none->json()["choices"][0]["logprobs"]["token_logprobs"], Json({nullptr, -1.0, -2.0}));
}

TEST(OpenAiCompletionsTest, PromptLogprobsHaveTokenIdsAndRanks) {
  FakeDoor door;
  door.backend->script = say_with_scores;
  const auto exchange = door.post(kCompletions, std::string(R"({"prompt": "ab", "n": 2, "prompt_logprobs": 1})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  const Json wanted = *parse_json(R"([null, {"98": {"logprob": -1.0, "rank": 2, "decoded_token": "b"},
                                             "122": {"logprob": -0.25, "rank": 1, "decoded_token": "z"}}])",
                                  "the expected value");
  const Json json = exchange->json();
  for (const Json& choice : json["choices"]) {
    EXPECT_EQ(choice["text"], "!");
    EXPECT_EQ(choice["prompt_logprobs"], wanted);
    EXPECT_TRUE(choice["logprobs"].is_null());
  }
  for (const char* body : {R"({"prompt": "a", "prompt_logprobs": 1, "stream": true})",
                           R"({"prompt": "a", "prompt_logprobs": 21})", R"({"prompt": "a", "prompt_logprobs": -1})"}) {
    const auto refused = door.post(kCompletions, std::string(body));
    EXPECT_EQ(refused->status, 400) << body;
    EXPECT_EQ(refused->json()["error"]["param"], "prompt_logprobs") << body;
  }
}

// A disconnect stops all prompts; the last of them ends the exchange.
TEST(OpenAiCompletionsTest, DisconnectStopsAllPrompts) {
  FakeDoor door;
  door.backend->keep_listeners = true;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 3, fake_tokenizer());
  };
  const auto exchange = door.post(kCompletions, std::string(R"({"prompt": ["a", "b"], "stream": true})"));
  EXPECT_TRUE(exchange->streams);
  for (const std::stop_token& stop : door.backend->stops) EXPECT_FALSE(stop.stop_requested());
  exchange->gone_source.request_stop();
  for (const std::stop_token& stop : door.backend->stops) EXPECT_TRUE(stop.stop_requested());
  for (const auto& listener : door.backend->listeners) {
    EXPECT_FALSE(exchange->ended);
    listener->end(Status(ErrorCode::kCancelled, "gone"));
  }
  EXPECT_TRUE(exchange->ended);
}

TEST(OpenAiCompletionsTest, EchoPrependsThePrompt) {
  FakeDoor door;
  EXPECT_EQ(door.post(kCompletions, std::string(R"({"prompt": "Oh: ", "echo": true})"))->json()["choices"][0]["text"],
            "Oh: Hello");
  std::string text;
  for (const Json& event :
       door.post(kCompletions, std::string(R"({"prompt": "Oh: ", "echo": true, "stream": true})"))->events()) {
    if (event.is_object()) text += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "Oh: Hello");
}

TEST(OpenAiCompletionsTest, StreamEndsWithFinishReasonUsageAndDone) {
  FakeDoor door;
  const auto events = door.post(kCompletions, std::string(R"({"prompt": "x", "stream": true,
    "stream_options": {"include_usage": true}})"))
                          ->events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["choices"][0]["text"], "He");
  EXPECT_TRUE(events[0]["usage"].is_null());
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(events[3]["choices"].empty());
  EXPECT_EQ(events[3]["usage"]["total_tokens"], 35);
  EXPECT_EQ(events[4], "[DONE]");
}

TEST(OpenAiCompletionsTest, LogprobsAreReturnedAsFlatLists) {
  FakeDoor door;
  const TokenId id = FakeTokenizer().template_ids("a")[0];
  door.backend->script = [id](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("aa");
    answer.logprobs = {{.id = id, .logprob = -0.5, .top = {{id, -0.5}}}, {.id = id, .logprob = -1, .top = {}}};
    FakeBackend::say(request, listener, answer);
  };
  const Json logprobs =
      door.post(kCompletions, std::string(R"({"prompt": "x", "logprobs": 1})"))->json()["choices"][0]["logprobs"];
  EXPECT_EQ(json_to_string(logprobs), R"({"tokens":["a","a"],"token_logprobs":[-0.5,-1.0],"top_logprobs":)"
                                      R"([{"a":-0.5},{"a":-1.0}],"text_offset":[0,1]})");
}

// As texts, the two tokens would be the same key.
TEST(OpenAiCompletionsTest, TopLogprobsOfNonUtf8TokensAreKeyedByBytes) {
  FakeDoor door;
  const Tokens ids = FakeTokenizer().sampled({"\xC3", "\xE2"});
  door.backend->script = [&ids](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("\xC3");
    answer.logprobs = {{.id = ids[0], .logprob = -0.5, .top = {{ids[0], -0.5}, {ids[1], -2}}}};
    FakeBackend::say(request, listener, answer);
  };
  const Json logprobs =
      door.post(kCompletions, std::string(R"({"prompt": "x", "logprobs": 2})"))->json()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"][0], "bytes:\\xc3");
  EXPECT_EQ(logprobs["top_logprobs"][0].dump(), R"({"bytes:\\xc3":-0.5,"bytes:\\xe2":-2.0})");
}

TEST(OpenAiCompletionsTest, StreamHasLogprobsWithTheirText) {
  FakeDoor door;
  const TokenId id = FakeTokenizer().template_ids("a")[0];
  door.backend->script = [id](const AnswerRequest&, AnswerListener& listener) {
    Answer answer = make_answer("aa");
    for (const double logprob : {-0.5, -1.0}) answer.logprobs.push_back({.id = id, .logprob = logprob, .top = {}});
    listener.begin("tiny", 3, fake_tokenizer());
    listener.logprobs(0, std::span(answer.logprobs).first(1));
    listener.content(0, "a");
    listener.content(0, "a");
    listener.answer(0, answer);
    listener.end({});
  };
  const auto events =
      door.post(kCompletions, std::string(R"({"prompt": "x", "logprobs": 0, "stream": true, "echo": false})"))
          ->events();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(json_to_string(events[0]["choices"][0]["logprobs"]),
            R"({"tokens":["a"],"token_logprobs":[-0.5],"top_logprobs":[{"a":-0.5}],"text_offset":[0]})");
  EXPECT_TRUE(events[1]["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(json_to_string(events[2]["choices"][0]["logprobs"]),
            R"({"tokens":["a"],"token_logprobs":[-1.0],"top_logprobs":[{"a":-1.0}],"text_offset":[1]})");
}

}  // namespace
}  // namespace ibid::serve
