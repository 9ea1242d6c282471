// Bad requests by number, against the whole server with a model that computes: each gets the right response, and the
// server continues. The cases that concern only HTTP (118 to 128, 130, 133) are in tests/server/http.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "tests/server/http/raw_client.h"
#include "tests/server/server_inside.h"
#include "tests/server/talking_model.h"
#include "tests/support/temp_dir.h"

namespace ibid::serve {
namespace {

using http::body_of;
using http::get_text;
using http::post_text;
using http::RawClient;
using http::status_of;
using testing::HasSubstr;

constexpr const char* kChat = "/v1/chat/completions";

class NumberedCases : public testing::Test {
 protected:
  NumberedCases() {
    write_talking_model(dir_.file("talker.gguf"));
    http::ServerOptions options;
    options.port = 0;
    inside_ = std::make_unique<ServerInside>(dir_.file("talker.gguf"), options, AdmissionOptions{.max_running = 1});
  }

  // After every case the server still answers.
  void TearDown() override {
    EXPECT_EQ(status_of(ask(kChat, chat(R"("max_tokens":2)"))), 200);
    EXPECT_TRUE(inside_->service->wait_until_quiet(std::chrono::seconds(20)));
    EXPECT_TRUE(inside_->server->wait_until_quiet(std::chrono::seconds(20)));
  }

  std::string ask(std::string_view path, std::string_view body) const {
    return inside_->ask(post_text(path, body, "Connection: close\r\n"));
  }

  // Returns a valid request with these additional fields.
  static std::string chat(const std::string& fields, const std::string& content = "Hello") {
    return R"({"messages":[{"role":"user","content":")" + content + R"("}],"seed":1,"logit_bias":{"257":-100},)" +
           fields + "}";
  }

  // Expects OpenAI's error for the body, with the field's name.
  void expect_refused(const std::string& body, std::string_view param, std::string_view said = "") const {
    const std::string response = ask(kChat, body);
    ASSERT_EQ(status_of(response), 400) << body.substr(0, 200) << "\n" << response.substr(0, 500);
    const Json error = Json::parse(body_of(response))["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    if (!param.empty()) {
      EXPECT_EQ(error["param"], param) << body.substr(0, 200);
    }
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(said));
  }
  // Expects each of these values of the field to be refused.
  void expect_refused(const std::string& field, const std::vector<std::string>& values) const {
    for (const std::string& value : values) {
      // The field must not be in the valid part: a duplicate would be refused for being a duplicate.
      const std::string body = R"({"messages":[{"role":"user","content":"Hello"}],")" + field + "\":" + value + "}";
      const std::string response = ask(kChat, body);
      ASSERT_EQ(status_of(response), 400) << body.substr(0, 200);
      const Json error = Json::parse(body_of(response))["error"];
      EXPECT_EQ(error["type"], "invalid_request_error");
      EXPECT_EQ(error["param"].get<std::string>().substr(0, field.size()), field) << value.substr(0, 50);
    }
  }

  // Starts a long answer, and returns when its first text has arrived.
  RawClient begin_long(std::string_view path = kChat, std::string body = "") const {
    RawClient one(inside_->server->port());
    if (body.empty()) body = chat(R"("max_tokens":1900,"n":8,"stream":true)");
    one.send(post_text(path, body, "Connection: close\r\n"));
    EXPECT_THAT(one.read_to("\"content\":"), HasSubstr("\"content\":"));
    return one;
  }

  template <typename Is>
  static bool becomes(const Is& is) {
    for (int i = 0; i < 10'000 && !is(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return is();
  }

  std::string make_conversation() const { return Json::parse(body_of(ask("/v1/conversations", "{}")))["id"]; }
  // The request for a response of the conversation.
  static std::string respond_in(const std::string& conversation, const std::string& fields) {
    return R"({"input":"one","logit_bias":{"257":-100},"seed":1,"conversation":")" + conversation + "\"," + fields +
           "}";
  }
  RawClient begin_long_in(const std::string& conversation) const {
    RawClient one(inside_->server->port());
    one.send(post_text("/v1/responses", respond_in(conversation, R"("max_output_tokens":1900,"stream":true)"),
                       "Connection: close\r\n"));
    EXPECT_THAT(one.read_to("output_text.delta"), HasSubstr("output_text.delta"));
    return one;
  }

  const TempDir dir_;
  std::unique_ptr<ServerInside> inside_;
};

TEST_F(NumberedCases, Case102BodyThatIsNotJsonIsRefused) {
  for (const char* body : {"", "hello", "{", "{\"messages\":", "[1,2", "{\"messages\":[]}x", "'{}'", "{\"a\":01}"}) {
    expect_refused(body, "");
  }
}

TEST_F(NumberedCases, Case103WrongTypesInEachFieldAreRefused) {
  const std::vector<std::string> no_number = {"\"1\"", "true", "[]", "{}"};
  for (const char* field : {"temperature", "top_p", "min_p", "max_tokens", "max_completion_tokens", "n", "top_k",
                            "seed", "frequency_penalty", "presence_penalty", "top_logprobs", "repeat_penalty"}) {
    expect_refused(field, no_number);
  }
  const std::vector<std::string> no_text = {"1", "true", "[]", "{}"};
  for (const char* field : {"model", "reasoning_effort", "cache_salt", "grammar"}) expect_refused(field, no_text);
  const std::vector<std::string> no_switch = {"1", "\"true\"", "[]", "{}"};
  for (const char* field : {"stream", "logprobs", "ignore_eos", "enable_thinking"}) expect_refused(field, no_switch);
  expect_refused("stop", {"1", "true", "{}", "[1]", "[null]", "[[]]"});
  expect_refused("logit_bias", {"1", "true", "\"x\""});
  expect_refused("tools", {"1", "{}", "\"x\"", "[1]", "[{}]"});
  expect_refused("response_format", {"1", "[]", "\"x\""});
  expect_refused("stream_options", {"1", "[]", "\"x\""});
  for (const char* messages : {"1", "{}", "\"x\"", "[1]", "[null]", "[[]]", R"([{"role":1,"content":"a"}])",
                               R"([{"role":"user","content":1}])", R"([{"role":"user","content":[{"type":1}]}])"}) {
    expect_refused(std::string(R"({"messages":)") + messages + "}", "", "");
  }
}

TEST_F(NumberedCases, Case104DeeplyNestedValueIsRefused) {
  for (const size_t depth : {65, 10'000, 1'000'000}) {
    expect_refused(R"({"messages":[{"role":"user","content":"Hello"}],"metadata":)" + std::string(depth, '[') +
                       std::string(depth, ']') + "}",
                   "");
  }
}

TEST_F(NumberedCases, Case105AMillionMessagesAreRefused) {
  std::string body = R"({"messages":[)";
  for (int i = 0; i < 1'000'000; ++i) body += i == 0 ? "{}" : ",{}";
  expect_refused(body + "]}", "");
}

TEST_F(NumberedCases, Case106DuplicateKeysAreRefused) {
  expect_refused(R"({"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"b"}]})", "");
  expect_refused(R"({"messages":[{"role":"user","content":"a","content":"b"}]})", "");
  expect_refused(chat(R"("max_tokens":1,"max_tokens":2)"), "");
}

TEST_F(NumberedCases, Case107InvalidUtf8IsRefused) {
  const std::string good = chat("\"max_tokens\":1");
  std::string utf16 = "\xFF\xFE";
  for (const char c : good) utf16 += {c, '\0'};
  for (const std::string& body : {"\xEF\xBB\xBF" + good, utf16, chat("\"max_tokens\":1", "\xC3\x28"),
                                  chat("\"max_tokens\":1", "\xED\xA0\x80"), chat("\"max_tokens\":1", "\\ud800")}) {
    expect_refused(body, "");
  }
}

TEST_F(NumberedCases, Case108TooManyAnswersAreRefused) {
  expect_refused("n", {"1000000000", "17", "0", "-1", "1.5", "1e300"});
}

TEST_F(NumberedCases, Case109InvalidMaxTokensAreRefused) {
  for (const char* field : {"max_tokens", "max_completion_tokens"}) expect_refused(field, {"-1.5", "1e18", "0.5"});
}

TEST_F(NumberedCases, Case110InvalidTemperaturesAreRefused) {
  expect_refused("temperature", {"-1", "1e9", "-0.0001"});
  for (const char* value : {"NaN", "1e999", "Infinity", "-Infinity"}) {
    expect_refused(chat(std::string("\"temperature\":") + value), "");
  }
}

TEST_F(NumberedCases, Case111TopPMinPAndTypicalPAboveOneAreRefused) {
  for (const char* field : {"top_p", "min_p", "typical_p"}) expect_refused(field, {"2", "-1", "1.0001"});
}

TEST_F(NumberedCases, Case112TooLargeSeedIsRefused) {
  expect_refused("seed", {"1180591620717411303424", "-1180591620717411303424", "1.5"});
}

TEST_F(NumberedCases, Case113InvalidLogitBiasesAreRefused) {
  expect_refused("logit_bias", {R"({"1":null})", R"({"1":true})", R"({"1":1000})", R"({"x":1})", R"({"-1":1})",
                                R"({"1":"1"})", "[[1]]", "[[1,true]]", R"({"99999999999":1})"});
  // These are not JSON.
  for (const char* value : {"Infinity", "1e999"}) {
    expect_refused(R"({"messages":[{"role":"user","content":"Hello"}],"logit_bias":{"1":)" + std::string(value) + "}}",
                   "");
  }
  // A token outside the vocabulary of 259: only the model can detect this.
  expect_refused(R"({"messages":[{"role":"user","content":"Hello"}],"logit_bias":{"259":1}})", "", "259");
}

TEST_F(NumberedCases, Case114InvalidStopStringsAreRefused) {
  std::string many = "[";
  for (int i = 0; i < 10'000; ++i) many += (i == 0 ? "\"s" : ",\"s") + std::to_string(i) + "\"";
  expect_refused("stop", {many + "]", "\"" + std::string(1025, 's') + "\"", "[\"" + std::string(1025, 's') + "\"]"});
  EXPECT_EQ(status_of(ask(kChat, chat("\"max_tokens\":1,\"stop\":\"" + std::string(1024, 's') + "\""))), 200);
}

TEST_F(NumberedCases, Case115PromptLongerThanTheContextIsRefused) {
  const std::string body = chat("\"max_tokens\":1,\"stream\":true", std::string(3000, 'a'));
  const std::string response = ask(kChat, body);
  ASSERT_EQ(status_of(response), 400) << "refused before any event";
  const Json error = Json::parse(body_of(response))["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  const std::string message = error["message"];
  EXPECT_THAT(message, HasSubstr("2048"));
  EXPECT_THAT(message, testing::ContainsRegex("30[0-9][0-9]"));
}

TEST_F(NumberedCases, Case116AnswerEndsWhenTheContextIsFull) {
  const std::string prompt(1900, 'p');
  const auto complete = [&](const std::string& text, const std::string& fields) {
    const std::string response =
        ask("/v1/completions", R"({"seed":1,"guided_regex":"[a-z]*","prompt":")" + text + "\"" + fields + "}");
    EXPECT_EQ(status_of(response), 200) << response.substr(0, 500);
    return Json::parse(body_of(response));
  };
  const Json full = complete(prompt, R"(,"ignore_eos":true,"max_tokens":100000)");
  EXPECT_EQ(full["choices"][0]["finish_reason"], "length");
  const std::string text = full["choices"][0]["text"];
  // 2048 tokens were evaluated. The last token was sampled, but no position was left to evaluate it.
  EXPECT_EQ(full["usage"]["prompt_tokens"].get<size_t>() + full["usage"]["completion_tokens"].get<size_t>(), 2049u);
  ASSERT_EQ(text.size(), full["usage"]["completion_tokens"].get<size_t>()) << "a token is a byte here";
  // All evaluated tokens are reused by a request that continues the text.
  const std::string known = prompt + text.substr(0, text.size() - 8);
  const Json after = complete(known, ",\"max_tokens\":1");
  EXPECT_EQ(after["usage"]["prompt_tokens"].get<size_t>(), known.size());
  EXPECT_EQ(after["usage"]["prompt_tokens_details"]["cached_tokens"].get<size_t>(), known.size() - 1);
}

TEST_F(NumberedCases, Case117RequestWithoutMessagesIsRefused) {
  expect_refused(R"({"messages":[]})", "messages");
  expect_refused("{}", "messages");
  expect_refused(R"({"messages":null})", "messages");
}

// The client that leaves frees its place in the queue, and the running answer is not affected.
TEST_F(NumberedCases, Case129WaitingClientThatDisconnectsLeavesTheQueue) {
  RawClient first = begin_long();
  RawClient waiting(inside_->server->port());
  waiting.send(post_text(kChat, chat("\"max_tokens\":5")));
  const auto n_waiting = [&] { return inside_->service->stats().n_waiting; };
  ASSERT_TRUE(becomes([&] { return n_waiting() == 1; }));
  waiting.reset();
  EXPECT_TRUE(becomes([&] { return n_waiting() == 0; }));
  EXPECT_EQ(inside_->service->stats().n_running, 1u);
  EXPECT_THAT(first.read_to("\"content\":"), HasSubstr("\"content\":"));
  first.reset();
  EXPECT_TRUE(becomes([&] { return inside_->service->stats().n_running == 0; }));
}

TEST_F(NumberedCases, Case131SecondConcurrentResponseOfAConversationIsRefused) {
  const std::string conversation = make_conversation();
  RawClient first = begin_long_in(conversation);
  const std::string two = respond_in(conversation, R"("max_output_tokens":2)");
  EXPECT_EQ(status_of(ask("/v1/responses", two)), 409);
  EXPECT_THAT(first.read_to("output_text.delta"), HasSubstr("output_text.delta"));
  first.reset();
  // The refused request is not part of the conversation, which can be continued.
  EXPECT_TRUE(becomes([&] { return status_of(ask("/v1/responses", two)) == 200; }));
}

TEST_F(NumberedCases, Case132ConversationCanBeDeletedDuringItsAnswer) {
  const std::string path = "/v1/conversations/" + make_conversation();
  RawClient one = begin_long_in(path.substr(path.rfind('/') + 1));
  const std::string deleted =
      inside_->ask("DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_of(deleted) / 100, 2) << deleted;
  EXPECT_EQ(status_of(inside_->ask(get_text(path, "Connection: close\r\n"))), 404);
  EXPECT_THAT(one.read_to("output_text.delta"), HasSubstr("output_text.delta")) << "the answer continues";
  one.reset();
  EXPECT_TRUE(becomes([&] { return inside_->service->stats().n_running == 0; }));
  EXPECT_EQ(status_of(inside_->ask(get_text(path, "Connection: close\r\n"))), 404);
}

TEST_F(NumberedCases, Case134InvalidCacheSaltsAreRefused) {
  expect_refused("cache_salt", {"\"" + std::string(1u << 20, 's') + "\"", "\"" + std::string(129, 's') + "\"",
                                R"("a\u0000b")", R"("a\nb")", R"("a\u001fb")", R"("a b")", "\"\"", "\"\xC3\xA4\""});
}

}  // namespace
}  // namespace ibid::serve
