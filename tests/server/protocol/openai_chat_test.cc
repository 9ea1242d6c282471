#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/cache_namespace.h"
#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

using testing::HasSubstr;

constexpr const char* kPath = "/v1/chat/completions";

Json chat_body() { return Json::parse(R"({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]})"); }

Json with(const char* fields) {
  Json body = chat_body();
  body.update(Json::parse(fields));
  return body;
}

TEST(OpenAiChatTest, WholeAnswerHasTheProtocolsFields) {
  FakeDoor door;
  const auto exchange = door.post(kPath, chat_body());
  ASSERT_EQ(exchange->status, 200);
  const Json json = exchange->json();
  EXPECT_EQ(json["id"], "chatcmpl-1");
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["model"], "tiny");
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "Hello");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(json["usage"]["prompt_tokens"], 30);
  EXPECT_EQ(json["usage"]["completion_tokens"], 5);
  EXPECT_EQ(json["usage"]["total_tokens"], 35);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 20);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cache_write_tokens"], 10);
  EXPECT_EQ(json["timings"]["prompt_n"], 10);
  EXPECT_EQ(json["timings"]["cache_n"], 20);
  EXPECT_EQ(json["timings"]["prompt_per_second"], 100.0);
  EXPECT_EQ(json["ibid"]["prefilled"], 10);
  EXPECT_EQ(json["ibid"]["seed"], 7);
  EXPECT_EQ(door.last().model, "tiny");
  EXPECT_EQ(door.last().cache_namespace, "us");
}

TEST(OpenAiChatTest, TokenIdsAndUsageComeWithEachChunk) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("Hello");
    answer.logprobs = {{.id = 5, .logprob = -1}, {.id = 6, .logprob = -2}};
    answer.end_of_turn = 9;
    if (request.options.n_logprobs) listener.logprobs(0, answer.logprobs);
    FakeBackend::say(request, listener, answer);
  };
  const Json whole = door.post(kPath, with(R"({"return_token_ids": true})"))->json();
  EXPECT_EQ(whole["prompt_token_ids"], Json::array({1, 2, 3}));
  EXPECT_EQ(whole["choices"][0]["token_ids"], Json::array({5, 6, 9}));
  EXPECT_TRUE(whole["choices"][0]["logprobs"].is_null()) << "not requested";
  EXPECT_EQ(whole["system_fingerprint"], "ibid-0.0.1");
  const auto events = door.post(kPath, with(R"({"stream": true, "return_token_ids": true, "stream_options":
    {"include_usage": true, "continuous_usage_stats": true}})"))
                          ->events();
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0]["choices"][0]["token_ids"], Json::array({5, 6}));
  EXPECT_EQ(json_to_string(events[0]["usage"]), R"({"prompt_tokens":30,"completion_tokens":2,"total_tokens":32})");
  EXPECT_EQ(events[3]["usage"]["prompt_tokens"], 30);
  EXPECT_EQ(events[0]["prompt_token_ids"], Json::array({1, 2, 3}));
  for (size_t i = 1; i < events.size(); ++i) EXPECT_FALSE(events[i].contains("prompt_token_ids")) << i;
  EXPECT_EQ(events[3]["choices"][0]["token_ids"], Json::array({9})) << "the end of the turn";
  EXPECT_FALSE(door.post(kPath, with(R"({"stream": true})"))->events()[1].contains("usage"));
  const char* only_continuous = R"({"stream": true, "stream_options": {"continuous_usage_stats": true}})";
  EXPECT_FALSE(door.post(kPath, with(only_continuous))->events()[1].contains("usage")) << "as in vLLM";
  const Json text = door.post("/v1/completions", std::string(R"({"prompt": "x", "return_token_ids": true})"))->json();
  EXPECT_EQ(text["choices"][0]["prompt_token_ids"], Json::array({1, 2, 3}));
  EXPECT_EQ(text["choices"][0]["token_ids"], Json::array({5, 6, 9}));
  const auto parts =
      door.post("/v1/completions", std::string(R"({"prompt": "x", "stream": true, "return_token_ids": true})"))
          ->events();
  EXPECT_EQ(parts[0]["choices"][0]["prompt_token_ids"], Json::array({1, 2, 3}));
  EXPECT_FALSE(parts[1]["choices"][0].contains("prompt_token_ids"));
  // As in vLLM, whole answers have the keys even if nothing was requested.
  const Json plain = door.post(kPath, with("{}"))->json();
  EXPECT_TRUE(plain.at("prompt_token_ids").is_null());
  EXPECT_TRUE(plain.at("prompt_logprobs").is_null());
  EXPECT_TRUE(plain["choices"][0].at("token_ids").is_null());
  const Json plain_text = door.post("/v1/completions", std::string(R"({"prompt": "x"})"))->json()["choices"][0];
  for (const char* key : {"prompt_token_ids", "prompt_logprobs", "token_ids"}) {
    EXPECT_TRUE(plain_text.at(key).is_null()) << key;
  }
  EXPECT_TRUE(text["choices"][0]["logprobs"].is_null());
}

TEST(OpenAiChatTest, StreamHasRoleTextFinishReasonUsageAndDoneInOrder) {
  FakeDoor door;
  const auto exchange = door.post(kPath, with(R"({"stream": true, "stream_options": {"include_usage": true}})"));
  EXPECT_EQ(exchange->status, 200);
  EXPECT_EQ(exchange->content_type, "text/event-stream");
  EXPECT_FALSE(exchange->keep_alive.empty());
  EXPECT_TRUE(exchange->ended);
  const std::vector<Json> events = exchange->events();
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(json_to_string(events[0]["choices"][0]["delta"]), R"({"role":"assistant","content":null})");
  EXPECT_EQ(json_to_string(events[1]["choices"][0]["delta"]), R"({"content":"He"})");
  EXPECT_EQ(json_to_string(events[2]["choices"][0]["delta"]), R"({"content":"llo"})");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    EXPECT_TRUE(events[i]["usage"].is_null());
    EXPECT_TRUE(events[i].contains("usage"));
    EXPECT_TRUE(events[i]["choices"][0]["finish_reason"].is_null());
  }
  EXPECT_EQ(json_to_string(events[3]["choices"][0]["delta"]), "{}");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[3]["timings"]["predicted_n"], 5);
  EXPECT_TRUE(events[4]["choices"].empty());
  EXPECT_EQ(events[4]["usage"]["prompt_tokens"], 30);
  EXPECT_EQ(events[5], "[DONE]");
}

TEST(OpenAiChatTest, UsageChunkIsSentOnlyWithIncludeUsage) {
  FakeDoor door;
  const auto exchange = door.post(kPath, with(R"({"stream": true})"));
  for (const Json& event : exchange->events()) {
    EXPECT_FALSE(event.is_object() && event.contains("usage")) << event.dump();
  }
}

TEST(OpenAiChatTest, ToolCallsAreReturnedInStreamsAndWholeAnswers) {
  Answer answer = make_answer("");
  answer.tool_calls = {{"c1", "f", "{\"x\": 1}"}, {"c2", "g", "{}"}};
  FakeDoor door;
  door.backend->script = [&](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 30, fake_tokenizer());
    listener.tool_call(0, 0, "c1", "f");
    listener.tool_arguments(0, 0, "{\"x\"");
    listener.tool_arguments(0, 0, ": 1}");
    listener.answer(0, answer);  // the second call was not received in parts
    listener.end({});
  };
  const auto whole = door.post(kPath, chat_body());
  const Json message = whole->json()["choices"][0]["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"x\": 1}");
  EXPECT_EQ(whole->json()["choices"][0]["finish_reason"], "tool_calls");

  const auto streamed = door.post(kPath, with(R"({"stream": true})"));
  std::string arguments[2], names[2];
  for (const Json& event : streamed->events()) {
    if (!event.is_object() || !event["choices"][0]["delta"].contains("tool_calls")) continue;
    const Json& call = event["choices"][0]["delta"]["tool_calls"][0];
    const size_t index = call["index"].get<size_t>();
    arguments[index] += call["function"]["arguments"].get<std::string>();
    if (call.contains("id"))
      names[index] += call["id"].get<std::string>() + call["function"]["name"].get<std::string>();
  }
  EXPECT_EQ(names[0], "c1f");
  EXPECT_EQ(names[1], "c2g");
  EXPECT_EQ(arguments[0], "{\"x\": 1}");
  EXPECT_EQ(arguments[1], "{}");
}

TEST(OpenAiChatTest, ReasoningHasItsOwnField) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("yes");
    answer.reasoning = "hmm";
    FakeBackend::say(request, listener, answer);
  };
  const Json json = door.post(kPath, chat_body())->json();
  EXPECT_EQ(json["choices"][0]["message"]["reasoning_content"], "hmm");
  EXPECT_GT(json["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
  const auto events = door.post(kPath, with(R"({"stream": true})"))->events();
  EXPECT_EQ(json_to_string(events[1]["choices"][0]["delta"]), R"({"reasoning_content":"hmm"})");
}

TEST(OpenAiChatTest, FinishReasonsFollowTheProtocol) {
  const std::pair<FinishReason, const char*> reasons[] = {{FinishReason::kStop, "stop"},
                                                          {FinishReason::kStopString, "stop"},
                                                          {FinishReason::kLength, "length"},
                                                          {FinishReason::kRepetition, "length"},
                                                          {FinishReason::kCancelled, "length"}};
  for (const auto& [reason, word] : reasons) {
    FakeDoor door;
    door.backend->script = [reason = reason](const AnswerRequest& request, AnswerListener& listener) {
      Answer answer = make_answer("x");
      answer.finish_reason = reason;
      FakeBackend::say(request, listener, answer);
    };
    const Json json = door.post(kPath, chat_body())->json();
    EXPECT_EQ(json["choices"][0]["finish_reason"], word);
    EXPECT_EQ(json["ibid"]["finish_reason"], std::string(finish_reason_name(reason)));
  }
}

TEST(OpenAiChatTest, LogprobsHaveTokenTextBytesAndAlternatives) {
  FakeDoor door;
  const TokenId id = FakeTokenizer().template_ids("a")[0];
  door.backend->script = [id](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("a");
    answer.logprobs = {{.id = id, .logprob = -0.5, .top = {{id, -0.5}}}};
    FakeBackend::say(request, listener, answer);
  };
  const Json json = door.post(kPath, with(R"({"logprobs": true, "top_logprobs": 1})"))->json();
  EXPECT_EQ(door.last().options.n_logprobs, 1u);
  const Json& token = json["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["token"], "a");
  EXPECT_EQ(token["logprob"], -0.5);
  EXPECT_EQ(token["bytes"][0], 97);
  EXPECT_EQ(token["top_logprobs"].size(), 1u);
  EXPECT_FALSE(door.last().options.logprobs_after_sampling);
  const Json by_id = door.post(kPath, with(R"({"logprobs": true, "top_logprobs": 1, "post_sampling_probs": true,
    "return_tokens_as_token_ids": true})"))
                         ->json()["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(by_id["token"], "token_id:" + std::to_string(id));
  EXPECT_EQ(by_id["top_logprobs"][0]["token"], by_id["token"]);
  EXPECT_EQ(by_id["bytes"][0], 97);
  EXPECT_TRUE(door.last().options.logprobs_after_sampling);
}

TEST(OpenAiChatTest, StreamHasLogprobsWithTheirText) {
  FakeDoor door;
  const TokenId a = FakeTokenizer().template_ids("a")[0], b = FakeTokenizer().template_ids("b")[0];
  door.backend->script = [a, b](const AnswerRequest&, AnswerListener& listener) {
    Answer answer = make_answer("aab");
    for (const TokenId id : {a, b, a, b}) answer.logprobs.push_back({.id = id, .logprob = -0.5, .top = {}});
    listener.begin("tiny", 3, fake_tokenizer());
    listener.logprobs(0, std::span(answer.logprobs).first(1));
    listener.content(0, "a");
    listener.logprobs(0, std::span(answer.logprobs).subspan(1, 1));  // log-probability of a marker
    listener.logprobs(0, std::span(answer.logprobs).subspan(2, 1));
    listener.content(0, "ab");
    listener.answer(0, answer);
    listener.end({});
  };
  std::string all;
  for (const Json& event : door.post(kPath, with(R"({"logprobs": true, "stream": true})"))->events()) {
    if (!event.is_object() || event["choices"].empty()) continue;
    const Json& choice = event["choices"][0];
    const Json content = choice["delta"].value("content", Json());
    all += content.is_string() ? content.get<std::string>() + ":" : ":";
    for (size_t i = 0; !choice["logprobs"].is_null() && i < choice["logprobs"]["content"].size(); ++i) {
      all += choice["logprobs"]["content"][i]["token"].get<std::string>();
    }
    all += "|";
  }
  EXPECT_EQ(all, ":|a:a|ab:ba|:b|");
}

TEST(OpenAiChatTest, LostPrefixReportContainsNoText) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("x");
    answer.lost_prefix = LostPrefix{.n_tokens = 9,
                                    .message = 2,
                                    .byte = 17,
                                    .token = 5,
                                    .was = "somebody's secret",
                                    .now = "other",
                                    .cause = LostCause::kMessageChanged};
    FakeBackend::say(request, listener, answer);
  };
  const auto exchange = door.post(kPath, chat_body());
  const Json lost = exchange->json()["ibid"]["lost_prefix"];
  EXPECT_EQ(lost["message"], 2);
  EXPECT_EQ(lost["byte"], 17);
  EXPECT_EQ(lost["cause"], "the message was changed");
  EXPECT_THAT(exchange->body, testing::Not(HasSubstr("secret")));
}

TEST(OpenAiChatTest, ContextFullErrorHasAdviceForClients) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.end(Status(ErrorCode::kContextFull, "the prompt has 9 tokens, the context has room for 8; rewind_to()"));
  };
  const std::string full = door.post(kPath, chat_body())->json()["error"]["message"];
  EXPECT_THAT(full, HasSubstr("maximum context length is 8 tokens, but the prompt has 9 tokens and exceeds the "
                              "available context size; send fewer"));
  EXPECT_THAT(full, testing::Not(HasSubstr("rewind_to")));
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.come_again(std::chrono::seconds(7));
    listener.end(Status(ErrorCode::kBusy, "full"));
  };
  const auto busy = door.post(kPath, chat_body());
  EXPECT_THAT(busy->headers, testing::Contains(testing::Pair("Retry-After", "7")));
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.end(Status(ErrorCode::kDeadline, "late"));
  };
  EXPECT_EQ(door.post(kPath, chat_body())->status, 504);
}

TEST(OpenAiChatTest, ErrorsBeforeTheAnswerHaveAStatusAndLaterOnesAreEvents) {
  const std::tuple<ErrorCode, int, const char*> errors[] = {{ErrorCode::kContextFull, 400, "context_length_exceeded"},
                                                            {ErrorCode::kNotFound, 404, "model_not_found"},
                                                            {ErrorCode::kBusy, 429, "server_busy"},
                                                            {ErrorCode::kOutOfMemory, 503, "out_of_memory"},
                                                            {ErrorCode::kTemplateRaise, 400, "template_refused"},
                                                            {ErrorCode::kCorrupt, 500, "server_error"},
                                                            {ErrorCode::kIo, 503, "service_unavailable"}};
  for (const auto& [code, status, word] : errors) {
    FakeDoor door;
    door.backend->script = [code = code](const AnswerRequest&, AnswerListener& listener) {
      listener.end(Status(code, "its own words, 5000 and 2048"));
    };
    for (const char* fields : {R"({"stream": true})", "{}"}) {
      const auto exchange = door.post(kPath, with(fields));
      EXPECT_EQ(exchange->status, status);
      EXPECT_FALSE(exchange->streams);
      const Json error = exchange->json()["error"];
      EXPECT_TRUE(error["message"].get<std::string>().starts_with("its own words, 5000 and 2048"));
      EXPECT_EQ(error["code"], word);
      EXPECT_TRUE(error.contains("type"));
      EXPECT_TRUE(error.contains("param"));
    }
  }
  FakeDoor door;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 3, fake_tokenizer());
    listener.content(0, "so far");
    listener.end(Status(ErrorCode::kOutOfMemory, "no pages"));
  };
  const auto exchange = door.post(kPath, with(R"({"stream": true})"));
  EXPECT_EQ(exchange->status, 200);
  EXPECT_TRUE(exchange->ended);
  const auto events = exchange->events();
  EXPECT_EQ(events.back()["error"]["message"], "no pages");
  EXPECT_EQ(events[1]["choices"][0]["delta"]["content"], "so far");
}

TEST(OpenAiChatTest, ProgressIsSentOnRequest) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    listener.begin("tiny", 100, fake_tokenizer());
    listener.prefill(20, 100);
    listener.prefill(100, 100);
    for (size_t i = 0; i < request.n; ++i) listener.answer(i, make_answer(""));
    listener.end({});
  };
  const auto events = door.post(kPath, with(R"({"stream": true, "return_progress": true})"))->events();
  EXPECT_EQ(events[2]["prompt_progress"]["processed"], 100);
  EXPECT_EQ(events[2]["prompt_progress"]["cache"], 20);
  const auto plain = door.post(kPath, with(R"({"stream": true})"));
  EXPECT_THAT(plain->body, testing::Not(HasSubstr("prompt_progress")));
}

TEST(OpenAiChatTest, TimingsAndPromptAreSentOnRequest) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    EXPECT_TRUE(request.returns_prompt_ids);
    listener.begin("tiny", 2, fake_tokenizer());
    const std::vector<TokenLogprobs> tokens = {{.id = 5, .logprob = -1}};
    if (request.options.n_logprobs) listener.logprobs(0, tokens);
    listener.content(0, "a");
    listener.prompt_tokens(0, Tokens{'h', 'i'});
    listener.answer(0, make_answer("a"));
    listener.end({});
  };
  const auto events =
      door.post(kPath, with(R"({"stream": true, "timings_per_token": true, "verbose": true})"))->events();
  EXPECT_FALSE(events[0].contains("timings")) << "there is no token yet";
  EXPECT_EQ(events[1]["timings"]["predicted_n"], 1);
  EXPECT_TRUE(events[1]["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(events[2]["__verbose"]["prompt"], "hi");
  EXPECT_EQ(door.post(kPath, with(R"({"verbose": true})"))->json()["__verbose"]["prompt"], "hi");
  door.backend->script = nullptr;
  EXPECT_FALSE(door.post(kPath, with(R"({"verbose": false})"))->json().contains("__verbose"));
}

TEST(OpenAiChatTest, DisconnectStopsTheAnswer) {
  FakeDoor door;
  door.backend->keep_listeners = true;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 3, fake_tokenizer());
  };
  const auto exchange = door.post(kPath, with(R"({"stream": true})"));
  EXPECT_FALSE(door.backend->stops[0].stop_requested());
  exchange->gone_source.request_stop();
  EXPECT_TRUE(door.backend->stops[0].stop_requested());
  door.backend->listeners[0]->end(Status(ErrorCode::kCancelled, "gone"));
  EXPECT_TRUE(exchange->ended);
}

TEST(OpenAiModelsTest, ModelsAreListedAndFoundByName) {
  FakeDoor door;
  const Json list = door.send("GET", "/v1/models")->json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"], "tiny");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["created"], 1700000000);
  EXPECT_EQ(list["data"][0]["meta"]["n_ctx"], 2048);
  EXPECT_FALSE(list["data"][1].contains("meta"));
  EXPECT_EQ(door.send("GET", "/v1/models/other")->json()["id"], "other");
  const auto missing = door.send("GET", "/v1/models/none");
  EXPECT_EQ(missing->status, 404);
  EXPECT_EQ(missing->json()["error"]["code"], "model_not_found");
}

TEST(OpenAiChatTest, UsersHaveSeparateNamespacesWithNamespaceByUser) {
  const std::string request = R"({"messages": [{"role": "user", "content": "x"}], "cache_salt": "s", "user": )";
  FakeDoor door;
  EXPECT_EQ(door.post("/v1/chat/completions", request + R"("one"})")->status, 200);
  EXPECT_EQ(door.last().cache_namespace, salted_namespace("us", "s"));
  EXPECT_EQ(owner_of_namespace(door.last().cache_namespace), "us");
  door.tell_users_apart();
  EXPECT_EQ(door.post("/v1/chat/completions", request + R"("one"})")->status, 200);
  EXPECT_EQ(door.last().cache_namespace, salted_namespace(user_namespace("us", "one"), "s"));
  EXPECT_EQ(owner_of_namespace(door.last().cache_namespace), user_namespace("us", "one"));
  for (const char* user : {"null}", "\"\"}"}) {
    EXPECT_EQ(door.post("/v1/chat/completions", request + user)->status, 200);
    EXPECT_EQ(door.last().cache_namespace, salted_namespace("us", "s"));
  }
  for (const char* user : {"5}", R"("a\u001fsalt:b"})"}) {
    const auto exchange = door.post("/v1/chat/completions", request + user);
    EXPECT_EQ(exchange->status, 400);
    EXPECT_EQ(exchange->json()["error"]["param"], "user");
  }
}

// An assistant's message at the end is continued, in every protocol that defines this.
TEST(OpenAiChatTest, AssistantMessageAtTheEndIsContinued) {
  const std::string user = R"({"role": "user", "content": "Q"})", given = R"({"role": "assistant", "content": "The "})",
                    empty = R"({"role": "assistant", "content": ""})";
  for (const char* path : {"/v1/chat/completions", "/v1/messages", "/api/chat", "/apply-template"}) {
    FakeDoor door;
    const auto post = [&](const std::string& messages) {
      return door.post(path, R"({"max_tokens": 9, "stream": false, "messages": [)" + messages + "]}")->status;
    };
    EXPECT_EQ(post(user + "," + given), 200) << path;
    EXPECT_TRUE(door.last().continues) << path;
    EXPECT_EQ(door.last().messages.size(), 2u);
    EXPECT_EQ(post(user), 200) << path;
    EXPECT_FALSE(door.last().continues) << path;
    // An empty one continues nothing.
    EXPECT_EQ(post(user + "," + empty), 200) << path;
    EXPECT_FALSE(door.last().continues) << path;
    EXPECT_EQ(door.last().messages.size(), 1u) << path;
    EXPECT_EQ(post(given), 200) << path;
    EXPECT_TRUE(door.last().continues) << path << ": without a question";
    EXPECT_EQ(post(empty), 400) << path;
  }
  FakeDoor door;
  const auto calls = door.post(
      "/v1/chat/completions",
      R"({"messages": [)" + user +
          R"(, {"role": "assistant", "content": "x", "tool_calls": [{"id": "1", "type": "function", "function": )"
          R"({"name": "f", "arguments": "{}"}}]}]})");
  EXPECT_EQ(calls->status, 400);
  EXPECT_THAT(calls->json()["error"]["message"].get<std::string>(), testing::HasSubstr("results of the tools"));
}

TEST(OpenAiChatTest, EchoReturnsTheContinuedMessage) {
  FakeDoor door;
  const std::string user = R"({"role": "user", "content": "Q"})",
                    messages = R"({"messages": [)" + user + R"(, {"role": "assistant", "content": "The "}])";
  const Json whole = door.post(kPath, messages + R"(, "echo": true})")->json();
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "The Hello");
  EXPECT_EQ(door.post(kPath, messages + "}")->json()["choices"][0]["message"]["content"], "Hello");
  const auto events = door.post(kPath, messages + R"(, "echo": true, "stream": true})")->events();
  EXPECT_EQ(events[1]["choices"][0]["delta"]["content"], "The ");
  const Json other = door.post(kPath, R"({"messages": [)" + user + R"(], "echo": true})")->json();
  EXPECT_EQ(other["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(other["ibid"]["ignored"][0]["field"], "echo");
}

// vLLM's two fields, for a last message of the assistant (A) and of the user (U).
TEST(OpenAiChatTest, ContinueFinalMessageAndAddGenerationPromptAreSupported) {
  struct Case {
    char last;
    const char* fields;
    int status;
    bool continues;
    int applied = 200;                   // status of /apply-template
    bool adds_generation_prompt = true;  // there
  };
  const Case cases[] = {
      {'A', "", 200, true},
      {'A', R"(, "continue_final_message": true, "add_generation_prompt": false)", 200, true},
      {'A', R"(, "continue_final_message": true)", 200, true},
      {'A', R"(, "add_generation_prompt": false)", 200, true},
      {'A', R"(, "continue_final_message": true, "add_generation_prompt": true)", 400, false, 400},
      {'A', R"(, "continue_final_message": false)", 400, false, 200, true},
      {'A', R"(, "continue_final_message": false, "add_generation_prompt": false)", 400, false, 200, false},
      {'A', R"(, "add_generation_prompt": true)", 400, false, 200, true},
      {'U', R"(, "add_generation_prompt": true, "continue_final_message": false)", 200, false},
      {'U', R"(, "continue_final_message": true)", 400, false, 400},
      {'U', R"(, "add_generation_prompt": false)", 400, false, 200, false},
      {'U', R"(, "continue_final_message": 1)", 400, false, 400},
  };
  for (const Case& one : cases) {
    FakeDoor door;
    const std::string messages = one.last == 'A'
                                     ? R"({"role": "user", "content": "Q"}, {"role": "assistant", "content": "a"})"
                                     : R"({"role": "user", "content": "Q"})";
    const std::string body = R"({"messages": [)" + messages + "]" + one.fields + "}";
    EXPECT_EQ(door.post("/v1/chat/completions", body)->status, one.status) << body;
    if (one.status == 200) {
      EXPECT_EQ(door.last().continues, one.continues) << body;
    }
    FakeDoor other;
    EXPECT_EQ(other.post("/apply-template", body)->status, one.applied) << body;
    if (one.applied != 200) continue;
    EXPECT_EQ(other.last().continues, one.continues) << body;
    EXPECT_EQ(other.last().adds_generation_prompt, one.adds_generation_prompt) << body;
  }
}

}  // namespace
}  // namespace ibid::serve
