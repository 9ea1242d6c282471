// Bad requests: 400, in the protocol's error format, with the field's name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sampling/sampler.h"
#include "server/protocol/answer_fields.h"
#include "server/service/request.h"
#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

struct BadChat {
  const char* fields;
  const char* param;
};

std::string chat_with(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "hi"}], )" + fields + "}";
}

TEST(BadInputTest, OutOfRangeErrorNamesTheField) {
  const BadChat cases[] = {
      {R"("n": 1000000000)", "n"},
      {R"("n": 0)", "n"},
      {R"("n": 1.5)", "n"},
      {R"("max_tokens": -2)", "max_tokens"},
      {R"("max_tokens": 1e18)", "max_tokens"},
      {R"("max_tokens": "5")", "max_tokens"},
      {R"("temperature": -1)", "temperature"},
      {R"("temperature": 1e9)", "temperature"},
      {R"("temperature": "hot")", "temperature"},
      {R"("temperature": true)", "temperature"},
      {R"("top_p": 2)", "top_p"},
      {R"("top_p": -0.1)", "top_p"},
      {R"("min_p": 1.1)", "min_p"},
      {R"("seed": 1180591620717411303424)", "seed"},
      {R"("seed": 1.5)", "seed"},
      {R"("logit_bias": {"5": null})", "logit_bias.5"},
      {R"("logit_bias": {"5": true})", "logit_bias.5"},
      {R"("logit_bias": {"5": 101})", "logit_bias.5"},
      {R"("logit_bias": {"x": 1})", "logit_bias.x"},
      {R"("logit_bias": {"-1": 1})", "logit_bias.-1"},
      {R"("logit_bias": 3)", "logit_bias"},
      {R"("logit_bias": [[1]])", "logit_bias[0]"},
      {R"("logit_bias": [["a"]])", "logit_bias[0]"},
      {R"("logit_bias": [["", 1]])", "logit_bias[0][0]"},
      {R"("logit_bias": [[1, 1], ["a", 101]])", "logit_bias[1][1]"},
      {R"("logit_bias": [["a", true]])", "logit_bias[0][1]"},
      {R"("stop": 5)", "stop"},
      {R"("stop": ["a", 5])", "stop[1]"},
      {R"("stream": "yes")", "stream"},
      {R"("stream_options": {"include_usage": 1})", "stream_options.include_usage"},
      {R"("top_logprobs": 3)", "top_logprobs"},
      {R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
      {R"("response_format": {"type": "xml"})", "response_format.type"},
      {R"("response_format": {"type": "json_schema"})", "response_format.json_schema.schema"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"schema": 5}})",
       "response_format.json_schema.schema"},
      {R"("response_format": "json")", "response_format"},
      {R"("grammar": "a", "guided_regex": "b")", "guided_regex"},
      {R"("guided_choice": [5])", "guided_choice[0]"},
      {R"("guided_json": "[")", "guided_json"},
      {R"("samplers": [5])", "samplers"},
      {R"("dry_sequence_breakers": "[")", "dry_sequence_breakers"},
      {R"("samplers": {"a": 1})", "samplers"},
      {R"("top_n_sigma": 1.5)", "top_n_sigma"},
      {R"("tfs_z": 0.5)", "tfs_z"},
      {R"("skip_special_tokens": false)", "skip_special_tokens"},
      {R"("length_penalty": 2)", "length_penalty"},
      {R"("logits_processors": ["x"])", "logits_processors"},
      {R"("lora": [{"id": 0, "scale": 1}])", "lora"},
      {R"("allowed_token_ids": ["x"])", "allowed_token_ids[0]"},
      {R"("allowed_token_ids": [1, -1])", "allowed_token_ids[1]"},
      {R"("logprob_token_ids": 5)", "logprob_token_ids"},
      {R"("logprob_token_ids": [1.5])", "logprob_token_ids[0]"},
      {R"("tool_choice": {"type": "allowed_tools"})", "tool_choice"},
      {R"("tools": [5])", "tools[0].function"},
      {R"("tools": [{"type": "function"}])", "tools[0].function"},
      {R"("tools": [{"type": "function", "function": {"name": ""}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "parameters": []}}])",
       "tools[0].function.parameters"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "strict": 1}}])", "tools[0].function.strict"},
      {R"("tools": {"a": 1})", "tools"},
      {R"("tool_choice": "required")", "tool_choice"},
      {R"("tool_choice": "maybe")", "tool_choice"},
      {R"("tool_choice": {"type": "function", "function": {"name": "g"}})", "tool_choice"},
      {R"("tool_choice": {"type": "function", "function": {}})", "tool_choice.function.name"},
      {R"("reasoning_effort": "huge")", "reasoning_effort"},
      {R"("chat_template_kwargs": {"messages": []})", "chat_template_kwargs.messages"},
      {R"("chat_template_kwargs": [])", "chat_template_kwargs"},
      {R"("cache_salt": "a b")", "cache_salt"},
      {R"("cache_salt": "a\u0001")", "cache_salt"},
      {R"("truncate": 5)", "truncate"},
      {R"("model": 5)", "model"},
      {R"("functions": [{"name": "f"}])", "functions"},
      {R"("best_of": 2)", "best_of"},
      {R"("mirostat": 2)", "mirostat"},
      {R"("ignore_eos": 1)", "ignore_eos"},
      {R"("audio": {"voice": "x"})", "audio"},
      {R"("modalities": ["audio"])", "modalities"},
      {R"("prompt_logprobs": 1, "stream": true)", "prompt_logprobs"},
  };
  for (const BadChat& bad : cases) {
    FakeDoor door;
    const auto exchange = door.post("/v1/chat/completions", chat_with(bad.fields));
    EXPECT_EQ(exchange->status, 400) << bad.fields;
    const Json error = exchange->json()["error"];
    EXPECT_EQ(error["param"], bad.param) << bad.fields;
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_TRUE(door.backend->requests.empty());
  }
}

// A number that no double represents is printed unchanged, and so are the limits.
TEST(BadInputTest, ErrorsPrintLargeNumbersExactly) {
  FakeDoor door;
  const auto exchange = door.post("/v1/chat/completions", chat_with(R"("seed": -9223372036854776000)"));
  EXPECT_EQ(exchange->json()["error"]["message"],
            "seed: must be a whole number, -9223372036854775808 to 18446744073709551615, not -9.223372036854776e+18");
}

TEST(BadInputTest, ProtocolsWithASingleAnswerRefuseTheFieldN) {
  const std::pair<const char*, const char*> bodies[] = {
      {"/v1/responses", R"({"input": "hi", "n": 2})"},
      {"/v1/messages", R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "n": 2})"},
      {"/api/chat", R"({"messages": [{"role": "user", "content": "hi"}], "n": 2})"},
      {"/api/generate", R"({"prompt": "hi", "n": 2})"},
      {"/completion", R"({"prompt": "once", "n": 2})"}};
  for (const auto& [path, body] : bodies) {
    FakeDoor door;
    const auto exchange = door.post(path, std::string(body));
    EXPECT_EQ(exchange->status, 400) << path;
    EXPECT_THAT(exchange->body, testing::HasSubstr("n: must be a whole number, 1 to 1, not 2")) << path;
  }
}

// /metrics counts an error as the client's exactly if the client gets a 400 or 404 for it.
TEST(BadInputTest, ErrorsCountAsTheClientsIfTheirStatusIs400Or404) {
  for (int i = 1; i <= static_cast<int>(ErrorCode::kDeadline); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    const int status = fault_of(Status(code, "x")).status;
    EXPECT_EQ(status == 400 || status == 404, is_of_request(code)) << error_code_name(code);
  }
}

TEST(BadInputTest, InvalidFormatErrorNamesTheField) {
  struct BadForm {
    const char* path;
    const char* fields;
    const char* param;
  };
  const BadForm cases[] = {
      {"/v1/chat/completions", R"("guided_regex": "(")", "guided_regex"},
      {"/v1/chat/completions", R"("guided_grammar": "x")", "guided_grammar"},
      {"/v1/chat/completions", R"("guided_choice": ["a"])", "guided_choice"},
      {"/v1/chat/completions", R"("guided_json": "{}")", "guided_json"},
      {"/v1/chat/completions", R"("grammar": "x")", "grammar"},
      {"/v1/chat/completions", R"("json_schema": {})", "json_schema"},
      {"/v1/chat/completions", R"("structured_outputs": {"regex": "("})", "structured_outputs.regex"},
      {"/v1/chat/completions", R"("structured_outputs": {"json": {}})", "structured_outputs.json"},
      {"/v1/chat/completions", R"("structured_outputs": {"choice": ["a"]})", "structured_outputs.choice"},
      {"/v1/chat/completions", R"("structured_outputs": {"grammar": "x"})", "structured_outputs.grammar"},
      {"/v1/chat/completions", R"("response_format": {"type": "json_object", "schema": {}})", "response_format.schema"},
      {"/v1/chat/completions", R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}}})",
       "response_format.json_schema.schema"},
      {"/v1/completions", R"("prompt": "x", "grammar": "x")", "grammar"},
      {"/completion", R"("prompt": "x", "json_schema": {})", "json_schema"},
      {"/v1/responses", R"("input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}})",
       "text.format.schema"},
      {"/v1/messages", R"("max_tokens": 5, "output_config": {"format": {"type": "json_schema", "schema": {}}})",
       "output_config.format.schema"},
      {"/v1/messages", R"("max_tokens": 5, "output_format": {"type": "json_schema", "schema": {}})",
       "output_format.schema"},
      {"/api/chat", R"("format": {"type": "object"})", "format"},
  };
  for (const BadForm& bad : cases) {
    FakeDoor door;
    door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
      listener.end(Status(ErrorCode::kInvalidArgument, request.form.field + ": is none"));
    };
    const auto exchange = door.post(bad.path, chat_with(bad.fields));
    EXPECT_EQ(exchange->status, 400) << bad.fields;
    const Json error = exchange->json()["error"];
    const std::string text = std::string(bad.param) + ": is none";
    EXPECT_EQ(error.is_object() ? error["message"] : error, text) << bad.fields;
    if (error.contains("param")) {
      EXPECT_EQ(error["param"], bad.param);
    }
  }
}

TEST(BadInputTest, MessageErrorsNameTheirPath) {
  const BadChat cases[] = {
      {R"([])", "messages"},
      {R"("hi")", "messages"},
      {R"([5])", "messages[0]"},
      {R"([{"content": "x"}])", "messages[0].role"},
      {R"([{"role": "", "content": "x"}])", "messages[0].role"},
      {R"([{"role": "a role of more than sixty-four bytes, which is longer than any role of a template", "content": "x"}])",
       "messages[0].role"},
      {R"([{"role": "assistant", "function_call": {"arguments": "{}"}}])", "messages[0].function_call.name"},
      {R"([{"role": "assistant", "tool_calls": [{"type": "custom", "custom": {}}]}])",
       "messages[0].tool_calls[0].custom.name"},
      {R"([{"role": "user"}])", "messages[0].content"},
      {R"([{"role": "user", "content": null}])", "messages[0].content"},
      {R"([{"role": "user", "content": 5}])", "messages[0].content"},
      {R"([{"role": "user", "content": "x"}, {"role": "user", "content": [5]}])", "messages[1].content[0]"},
      {R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role": "user", "content": [{"type": "input_audio"}]}])", "messages[0].content[0].type"},
      {R"([{"role": "user", "content": [{"type": "text", "text": 5}]}])", "messages[0].content[0].text"},
      {R"([{"role": "user", "name": 5, "content": "x"}])", "messages[0].name"},
      {R"([{"role": "assistant", "tool_calls": 5}])", "messages[0].tool_calls"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])", "messages[0].tool_calls[0].function.name"},
      {R"([{"role": "assistant", "content": ""}])", "messages"},
  };
  for (const BadChat& bad : cases) {
    FakeDoor door;
    const auto exchange = door.post("/v1/chat/completions", std::string(R"({"messages": )") + bad.fields + "}");
    EXPECT_EQ(exchange->status, 400) << bad.fields;
    EXPECT_EQ(exchange->json()["error"]["param"], bad.param) << bad.fields;
  }
  FakeDoor door;
  EXPECT_EQ(door.post("/v1/chat/completions", std::string("{}"))->json()["error"]["code"],
            "missing_required_parameter");
}

TEST(BadInputTest, BodiesThatAreNotAJsonObjectAreRefused) {
  std::string deep = R"({"messages": )", many = R"({"messages": [)", stops = R"("stop": [)", keys = "{";
  for (int i = 0; i < 65; ++i) deep += "[";
  for (int i = 0; i < 1'000'000; ++i) many += i == 0 ? "{}" : ",{}";
  many += "]}";
  for (int i = 0; i < 10'000; ++i) stops += i == 0 ? "\"a\"" : ",\"a\"";
  for (int i = 0; i < 2000; ++i) keys += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  const std::string bodies[] = {"",
                                "{",
                                "[]",
                                "5",
                                "{\"a\": 1,}",
                                "{\"a\": 1} x",
                                "{\"a\": 1, \"a\": 2}",
                                "\xEF\xBB\xBF{}",
                                std::string("{\0\"\0", 4),
                                "{\"a\": \"\xFF\"}",
                                "{\"a\": 1e400}",
                                "{\"a\": NaN}",
                                "{\"a\": \"\\ud800\"}",
                                deep,
                                many,
                                chat_with(stops + "]"),
                                keys + "}"};
  for (const std::string& body : bodies) {
    FakeDoor door;
    const auto exchange = door.post("/v1/chat/completions", body);
    EXPECT_EQ(exchange->status, 400) << body.substr(0, 50);
    EXPECT_FALSE(exchange->json()["error"]["message"].get<std::string>().empty());
    EXPECT_LT(exchange->body.size(), 1000u);
  }
  FakeDoor door;
  EXPECT_EQ(door.post("/v1/chat/completions", many)->json()["error"]["param"], "messages");
  EXPECT_EQ(door.post("/v1/chat/completions", chat_with(stops + "]"))->json()["error"]["param"], "stop");
}

TEST(BadInputTest, UnknownFieldsAreIgnored) {
  FakeDoor door;
  EXPECT_EQ(door.post("/v1/chat/completions", chat_with(R"("user": "ann", "metadata": {"a": "b"}, "service_tier": "x",
    "store": true, "never_heard_of": [1, 2], "prompt_cache_key": "k")"))
                ->status,
            200);
  EXPECT_EQ(door.last().cache_namespace, "us");
}

// Both ends of a range in the table are allowed, and the sampler accepts every value that the table allows.
TEST(BadInputTest, FieldTableHasTheRangesOfTheSampler) {
  size_t n_checked = 0;
  for (const Field<AnswerRequest>& field : sampler_fields()) {
    if (field.rule.shape != Shape::kNumber) continue;
    for (const double value : {field.rule.least, field.rule.most}) {
      AnswerRequest request;
      ASSERT_NO_THROW(check_shape(field.rule, Json(value)));
      ASSERT_NO_THROW(field.read(Json(value), request));
      EXPECT_NO_THROW(check_sampler(request)) << field.rule.name << ' ' << value;
    }
    AnswerRequest beyond;
    EXPECT_THROW(check_shape(field.rule, Json(field.rule.most * 1.01)), Fault) << field.rule.name;
    ASSERT_NO_THROW(field.read(Json(field.rule.most * 1.01), beyond));
    EXPECT_THROW(check_sampler(beyond), Fault) << field.rule.name;
    ++n_checked;
  }
  EXPECT_EQ(n_checked, 13u);
}

}  // namespace
}  // namespace ibid::serve
