// Answers with a response format or a required tool call: only reasoning may precede it.
#include <gtest/gtest.h>

#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

// A template that thinks first, unless disabled; "open": the prompt opens the reasoning.
constexpr const char* kThinks =
    "{% if tools %}{{ '<tools>' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message.reasoning_content %}{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{% endif %}"
    "{{ message['content'] }}"
    "{% for call in message.tool_calls %}"
    "{{ '<tool_call>\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}"
    "{{ call.function.arguments | tojson }}{{ '}\n</tool_call>' }}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if thinking == 'open' %}{{ '<think>\n' }}{% endif %}"
    "{% if thinking == 'none' %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}";

constexpr const char* kSchema = R"({"type": "object", "properties": {"place": {"enum": ["here", "there"]}},
                                    "required": ["place"], "additionalProperties": false})";

struct FormFixture : ServiceFixture {
  FormFixture() : ServiceFixture(quiet(), kThinks) {}
  // Makes the model begin with `text`; afterwards it continues by itself.
  void begins_with(const std::string& text, const std::string& prompt, bool ends = false) {
    Tokens ids = chat.tokenizer->encode(text, TextOrigin::kInput, false);
    if (ends) ids.push_back(chat.tokenizer->im_end);
    chat.model->script = [ids, begin = chat.ids(prompt).size()](TokenSpan prefix) -> std::optional<TokenId> {
      if (prefix.size() < begin || prefix.size() >= begin + ids.size()) return std::nullopt;
      return ids[prefix.size() - begin];
    };
  }
  AnswerRequest request(const char* thinking = "") {
    AnswerRequest out = ask(Json::array({user("x")}));
    out.options.max_tokens = 1000;
    out.variables["thinking"] = thinking;
    return out;
  }
  AnswerRequest with_schema(const char* thinking = "") {
    AnswerRequest out = request(thinking);
    out.form = {.kind = ResponseFormat::Kind::kJsonSchema, .text = kSchema};
    return out;
  }
  AnswerRequest with_call(const char* thinking = "") {
    AnswerRequest out = request(thinking);
    out.tools = Json::array();
    for (const char* name : {"weather", "time"}) {
      Json tool = {{"type", "function"}, {"function", {{"name", name}}}};
      tool["function"]["parameters"] = parse_json(kSchema, "test").value();
      out.tools.push_back(tool);
    }
    out.tool_choice.kind = ToolChoice::Kind::kRequired;
    return out;
  }
};

constexpr const char* kPrompt = "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n";
const std::string kToolsPrompt = std::string("<tools>") + kPrompt;

void expect_place(const std::string& text) {
  const Result<Json> json = parse_json(text, "the answer");
  ASSERT_TRUE(json.ok()) << text;
  EXPECT_TRUE((*json)["place"] == "here" || (*json)["place"] == "there") << text;
}

TEST(ResponseFormatTest, FormatBeginsAfterReasoningOpenedByTheModel) {
  FormFixture f;
  f.begins_with("<think>\nA place, \"{\" or so.\n</think>\n\nHello", kPrompt);
  const Answer answer = f.answer(f.with_schema());
  EXPECT_EQ(answer.reasoning, "A place, \"{\" or so.");
  expect_place(answer.content);
}

TEST(ResponseFormatTest, FormatBeginsAfterReasoningOpenedByThePrompt) {
  FormFixture f;
  f.begins_with("A place.\n</think>\n\nHello", std::string(kPrompt) + "<think>\n");
  const Answer answer = f.answer(f.with_schema("open"));
  EXPECT_EQ(answer.reasoning, "A place.");
  expect_place(answer.content);
}

TEST(ResponseFormatTest, FormatBeginsAtOnceWithoutReasoning) {
  for (const char* thinking : {"", "none"}) {
    FormFixture f;
    f.begins_with("{ a place", std::string(kPrompt) + (thinking[0] == 0 ? "" : "<think>\n\n</think>\n\n"));
    const Answer answer = f.answer(f.with_schema(thinking));
    EXPECT_EQ(answer.reasoning, "") << thinking;
    expect_place(answer.content);
  }
  FormFixture f;
  f.begins_with("<think>\n", std::string(kPrompt) + "<think>\n\n</think>\n\n");
  EXPECT_FALSE(f.answer(f.with_schema("none")).text.starts_with("<think>")) << "the prompt has closed the reasoning";
}

// The format of a continued answer includes the text so far, whatever the template does about reasoning.
TEST(ResponseFormatTest, ContinuedAnswerKeepsTheFormat) {
  for (const char* thinking : {"", "open", "none"}) {
    FormFixture f;
    AnswerRequest request = f.with_schema(thinking);
    const std::string given = R"({"place": "th)";
    request.messages.push_back(make_message(Role::kAssistant, given));
    request.continues = true;
    const Answer answer = f.answer(request);
    EXPECT_EQ(answer.reasoning, "") << thinking;
    expect_place(given + answer.content);
    EXPECT_EQ(answer.finish_reason, FinishReason::kStop) << thinking;
    request.messages.back() = make_message(Role::kAssistant, "Hello");
    const Status refused = f.start(request)->wait();
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument) << thinking;
  }
  // An answer of this server that was cut has its own tokens, reasoning among them.
  for (const char* thinking : {"", "open"}) {
    FormFixture f;
    f.begins_with(*thinking == 0 ? "<think>\nA place.\n</think>\n\nHello" : "A place.\n</think>\n\nHello",
                  std::string(kPrompt) + (*thinking == 0 ? "" : "<think>\n"));
    AnswerRequest request = f.with_schema(thinking);
    const Answer whole = f.answer(request);
    request.options.max_tokens = whole.usage.n_decoded - 4;
    const Answer cut = f.answer(request);
    ASSERT_NE(cut.content, "");
    Json said = make_message(Role::kAssistant, cut.content);
    said["reasoning_content"] = cut.reasoning;
    request.messages.push_back(said);
    request.continues = true;
    request.options.max_tokens = 1000;
    const Answer rest = f.answer(request);
    EXPECT_EQ(cut.content + rest.content, whole.content) << thinking;
    expect_place(cut.content + rest.content);
  }
}

TEST(ResponseFormatTest, ContinuedBeginningOfACallIsFinished) {
  FormFixture f;
  AnswerRequest request = f.with_call("none");
  request.messages.push_back(make_message(Role::kAssistant, "<tool_call>\n{\"name\": \"ti"));
  request.continues = true;
  const Answer answer = f.answer(request);
  ASSERT_GE(answer.tool_calls.size(), 1u) << answer.text;
  EXPECT_EQ(answer.tool_calls[0].name, "time");
  expect_place(answer.tool_calls[0].arguments);
}

TEST(ResponseFormatTest, AnswerHasOnlyAllowedTokens) {
  FormFixture f;
  AnswerRequest request = f.request();
  request.options.max_tokens = 5;
  request.options.n_logprobs = 0;
  const TokenId a = f.chat.tokenizer->encode("a", TextOrigin::kInput, false)[0],
                b = f.chat.tokenizer->encode("b", TextOrigin::kInput, false)[0];
  request.allowed_tokens = {a};
  request.options.logprob_token_ids = {b};
  const Answer answer = f.answer(request);
  EXPECT_EQ(answer.text, "aaaaa");
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
  ASSERT_EQ(answer.logprobs.size(), 5u);
  ASSERT_EQ(answer.logprobs[0].top.size(), 2u) << "the requested token and the sampled one";
  request.allowed_tokens = {a, f.chat.tokenizer->im_end};
  request.options.sampler.logit_bias[a] = -100;
  EXPECT_EQ(f.answer(request).text, "") << "the end is allowed";
  const auto code_of = [&](AnswerRequest bad) { return f.start(std::move(bad))->wait().code(); };
  AnswerRequest outside = request;
  outside.allowed_tokens = {1 << 20};
  EXPECT_EQ(code_of(outside), ErrorCode::kInvalidArgument);
  AnswerRequest formed = f.with_schema();
  formed.allowed_tokens = {a};
  EXPECT_EQ(code_of(formed), ErrorCode::kUnsupported);
  AnswerRequest unlisted = f.request();
  unlisted.options.logprob_token_ids = {b};
  EXPECT_EQ(code_of(unlisted), ErrorCode::kInvalidArgument) << "without log-probabilities";
  unlisted.options.n_logprobs = 0;
  unlisted.options.logprob_token_ids = {1 << 20};
  EXPECT_EQ(code_of(unlisted), ErrorCode::kInvalidArgument);
}

TEST(ResponseFormatTest, RequiredCallBeginsAtOnce) {
  FormFixture f;
  f.begins_with("I am a model that would rather talk.", kToolsPrompt + "<think>\n\n</think>\n\n");
  const Answer answer = f.answer(f.with_call("none"));
  EXPECT_EQ(answer.content, "");
  ASSERT_GE(answer.tool_calls.size(), 1u) << answer.text;
  EXPECT_TRUE(answer.text.starts_with("<tool_call>")) << answer.text;
  for (const ToolCall& call : answer.tool_calls) expect_place(call.arguments);
}

TEST(ResponseFormatTest, RequiredCallBeginsAfterReasoning) {
  FormFixture f;
  f.begins_with("<think>\nWhich one?\n</think>\n\nI would rather talk.", kToolsPrompt);
  const Answer answer = f.answer(f.with_call());
  EXPECT_EQ(answer.reasoning, "Which one?");
  EXPECT_EQ(answer.content, "");
  EXPECT_GE(answer.tool_calls.size(), 1u) << answer.text;
}

TEST(ResponseFormatTest, CallHasOnlyListedArguments) {
  FormFixture f;
  AnswerRequest request = f.with_call("none");
  for (Json& tool : request.tools) tool["function"]["parameters"].erase("additionalProperties");
  const Answer answer = f.answer(request);
  ASSERT_GE(answer.tool_calls.size(), 1u) << answer.text;
  for (const ToolCall& call : answer.tool_calls) EXPECT_EQ(parse_json(call.arguments, "test")->size(), 1u);
}

TEST(ResponseFormatTest, NamedFunctionIsCalledOnce) {
  FormFixture f;
  f.begins_with("No.", kToolsPrompt);
  AnswerRequest request = f.with_call();
  request.tool_choice = {.kind = ToolChoice::Kind::kNamed, .name = "time"};
  const Answer answer = f.answer(request);
  ASSERT_EQ(answer.tool_calls.size(), 1u) << answer.text;
  EXPECT_EQ(answer.tool_calls[0].name, "time");
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
}

Json tool_with(const char* name, const char* parameters) {
  Json tool = {{"type", "function"}, {"function", {{"name", name}}}};
  tool["function"]["parameters"] = parse_json(parameters, "test").value();
  return tool;
}

// The schema has nested models, as pydantic writes them, and a recursive one.
TEST(ResponseFormatTest, RequiredCallSupportsSchemaReferences) {
  FormFixture f;
  AnswerRequest request = f.with_call("none");
  request.tools = Json::array(
      {tool_with("weather", R"({"$id": "https://example.com/weather", "$defs": {"Place": {"type": "object",
          "properties": {"name": {"enum": ["here", "there"]}}, "required": ["name"], "additionalProperties": false}},
          "type": "object", "properties": {"place": {"$ref": "#/$defs/Place"}}, "required": ["place"]})"),
       tool_with("climate", R"({"type": "object", "properties": {"n": {"enum": [1, 2]}, "next": {"$ref": "#"}},
          "required": ["n"], "additionalProperties": false})")});
  for (const char* name : {"weather", "climate"}) {
    request.tool_choice = {.kind = ToolChoice::Kind::kNamed, .name = name};
    const Answer answer = f.answer(request);
    ASSERT_EQ(answer.tool_calls.size(), 1u) << answer.text;
    const Json arguments = parse_json(answer.tool_calls[0].arguments, "test").value();
    if (name[0] == 'w') {
      EXPECT_TRUE(arguments["place"]["name"].is_string()) << answer.text;
      continue;
    }
    for (const Json* n = &arguments; n != nullptr; n = n->contains("next") ? &(*n)["next"] : nullptr) {
      EXPECT_TRUE((*n)["n"] == 1 || (*n)["n"] == 2) << answer.text;
      EXPECT_FALSE(n->contains("name"));
    }
  }
}

TEST(ResponseFormatTest, UnsupportedToolSchemaErrorNamesTheTool) {
  FormFixture f;
  AnswerRequest request = f.with_call("none");
  request.tools.push_back(tool_with("odd", R"({"type": "object", "properties": {"a": {"not": {"multipleOf": 2}}}})"));
  const auto heard = f.start(request);
  const Status& status = heard->wait();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.message().find("\"odd\""), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("#/properties/a/not"), std::string::npos) << status.message();
}

TEST(ResponseFormatTest, FormatErrorBeginsWithTheFieldOfTheRequest) {
  FormFixture f;
  for (const char* field : {"guided_regex", "structured_outputs.regex", ""}) {
    AnswerRequest request = f.request();
    request.form = {.kind = ResponseFormat::Kind::kRegex, .text = "(a", .field = field};
    const Status status = f.start(request)->wait();
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    const std::string begin = *field == 0 ? "form: " : std::string(field) + ": ";
    EXPECT_TRUE(status.message().starts_with(begin)) << status.message();
  }
}

// A template that writes a call's id, which contains the tool's name (Kimi K2).
TEST(ResponseFormatTest, RequiredCallHasTheToolNameInItsId) {
  static const char* const kIds =
      "{% if tools %}{{ '<tools>' }}{% endif %}"
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}{% if m.tool_calls %}"
      "{{ '<|calls|>' }}{% for call in m.tool_calls %}{{ '<|call|>' + call.id + '<|arguments|>' }}"
      "{{ call.function.arguments | tojson }}{{ '<|end|>' }}{% endfor %}{{ '<|calls_end|>' }}{% endif %}"
      "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  ServiceFixture f(ServiceFixture::quiet(), kIds);
  AnswerRequest request = ask(Json::array({user("x")}));
  request.options.max_tokens = 1000;
  request.tools = Json::array({tool_with("weather", kSchema)});
  request.tool_choice = {.kind = ToolChoice::Kind::kNamed, .name = "weather"};
  const Answer answer = f.answer(request);
  ASSERT_EQ(answer.tool_calls.size(), 1u) << answer.text;
  EXPECT_EQ(answer.tool_calls[0].name, "weather");
  EXPECT_TRUE(answer.tool_calls[0].id.starts_with("functions.weather:")) << answer.tool_calls[0].id;
  EXPECT_EQ(answer.content, "");
}

TEST(ResponseFormatTest, KeywordsWithoutEffectAreReported) {
  FormFixture f;
  AnswerRequest request = f.request("open");
  request.form = {
      .kind = ResponseFormat::Kind::kJsonSchema,
      .text = R"({"title": "T", "properties": {"a": {"type": "string", "format": "secret", "unit": "cm"}}})",
      .field = "response_format.schema"};
  for (const bool has_tools : {false, true}) {
    if (has_tools) request.tools = f.with_call().tools;
    const auto heard = f.start(request);
    EXPECT_TRUE(heard->wait().ok()) << heard->wait().to_string();
    const IgnoredParts& ignored = heard->ignored_parts();
    ASSERT_EQ(ignored.size(), 2u);
    EXPECT_EQ(ignored[0].field, "response_format.schema#/properties/a/format");
    EXPECT_EQ(ignored[1].field, "response_format.schema#/properties/a/unit");
    EXPECT_TRUE(ignored[0].is_clients_own) << "not for the log";
  }
}

TEST(ResponseFormatTest, SchemaFollowsTheStandardStrictlyOnRequest) {
  FormFixture f;
  f.begins_with(R"({"place":"here","more":1})", kPrompt, true);
  AnswerRequest request = f.request();
  request.form = {.kind = ResponseFormat::Kind::kJsonSchema,
                  .text = R"({"type": "object", "properties": {"place": {"type": "string"}}})"};
  EXPECT_EQ(*parse_json(f.answer(request).content, "the answer"), Json({{"place", "here"}}));
  request.form.standard_schema = true;
  EXPECT_EQ(f.answer(request).content, R"({"place":"here","more":1})");
}

TEST(ResponseFormatTest, PropertiesAreGeneratedInTheDeclaredOrder) {
  FormFixture f;
  f.begins_with(R"({"answer":1,"reason":""})", kPrompt, true);
  AnswerRequest request = f.request();
  request.form = {.kind = ResponseFormat::Kind::kJsonSchema,
                  .text = R"({"type": "object", "properties": {"reason": {"const": "r"}, "answer": {"const": 1}},
                              "required": ["reason", "answer"]})"};
  const std::string content = f.answer(request).content;
  EXPECT_LT(content.find("reason"), content.find("answer")) << content;
}

TEST(ResponseFormatTest, ConstraintsAreCachedAcrossRequests) {
  FormFixture f;
  const auto n_compiled = [&] { return f.chat.engine->state().constraints().n_compiled(); };
  AnswerRequest request = f.with_call("none");
  (void)f.answer(request);
  EXPECT_EQ(n_compiled(), 1u);
  request.messages = Json::array({user("y")});
  (void)f.answer(request);
  EXPECT_EQ(n_compiled(), 1u);
  request.tool_choice = {.kind = ToolChoice::Kind::kNamed, .name = "time"};
  (void)f.answer(request);
  EXPECT_EQ(n_compiled(), 2u);
  request.tools[0]["function"]["name"] = "climate";
  (void)f.answer(request);
  EXPECT_EQ(n_compiled(), 3u) << "other tools";
  (void)f.answer(f.with_call(""));
  EXPECT_EQ(n_compiled(), 4u) << "and reasoning";
}

constexpr const char* kClosed = "<think>\n\n</think>\n\n";
const std::string kCall = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"here\"}}\n</tool_call>";

TEST(ResponseFormatTest, ToolMayBeCalledInsteadOfTheFormat) {
  for (const bool calls : {true, false}) {
    FormFixture f;
    f.begins_with(calls ? kCall : "{\"place\": \"here\"}", kToolsPrompt + kClosed);
    AnswerRequest request = f.with_call("none");
    request.tool_choice = {};
    request.form = f.with_schema().form;
    const Answer answer = f.answer(request);
    EXPECT_EQ(answer.tool_calls.empty(), !calls) << answer.text;
    if (calls) {
      EXPECT_EQ(answer.tool_calls[0].name, "weather");
      EXPECT_EQ(answer.content, "");
    } else {
      expect_place(answer.content);
    }
  }
  FormFixture f;
  f.begins_with("I would rather talk.", kToolsPrompt + kClosed);
  AnswerRequest request = f.with_call("none");
  request.tool_choice = {};
  request.form = f.with_schema().form;
  const Answer answer = f.answer(request);
  EXPECT_FALSE(answer.text.starts_with("I"));
  if (answer.tool_calls.empty()) expect_place(answer.content);
}

struct InTextFixture : FormFixture {
  explicit InTextFixture(const std::string& text) { begins_with(text, kToolsPrompt + kClosed, true); }
  AnswerRequest with_tools(bool strict, bool parallel = true) {
    AnswerRequest out = with_call("none");
    out.tool_choice = {.parallel = parallel};
    for (Json& tool : out.tools) tool["function"]["strict"] = strict;
    return out;
  }
};

size_t n_times(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(ResponseFormatTest, StrictToolCallFollowsItsSchemaAndOtherTextIsUnconstrained) {
  InTextFixture plain("A <tool> or {\"place\": 1}, <tool_cal >.");
  EXPECT_EQ(plain.answer(plain.with_tools(true)).content, "A <tool> or {\"place\": 1}, <tool_cal >.");

  const std::string wrong =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"where\": \"nowhere\"}}\n</tool_call>";
  InTextFixture loose("Let me see.\n" + wrong);
  EXPECT_EQ(loose.answer(loose.with_tools(false)).tool_calls.at(0).arguments, "{\"where\": \"nowhere\"}");
  InTextFixture strict("Let me see.\n" + wrong);
  const Answer answer = strict.answer(strict.with_tools(true));
  EXPECT_TRUE(answer.content.starts_with("Let me see.")) << answer.text;
  ASSERT_GE(answer.tool_calls.size(), 1u) << answer.text;
  for (const ToolCall& call : answer.tool_calls) expect_place(call.arguments);
}

TEST(ResponseFormatTest, OnlyOneCallIsMadeIfParallelCallsAreDisabled) {
  for (const bool parallel : {true, false}) {
    InTextFixture f("Both:\n" + kCall + "\n" + kCall);
    AnswerRequest request = f.with_tools(true, parallel);
    const Answer answer = f.answer(request);
    EXPECT_EQ(answer.tool_calls.size(), parallel ? 2u : 1u) << answer.text;
    EXPECT_EQ(n_times(answer.text, "<tool_call>"), parallel ? 2u : 1u) << answer.text;
  }
}

TEST(ResponseFormatTest, ToolChoiceOfNonePreventsCalls) {
  InTextFixture f("As you wish: " + kCall);
  AnswerRequest request = f.with_tools(false);
  request.tool_choice.kind = ToolChoice::Kind::kNone;
  const Answer answer = f.answer(request);
  EXPECT_TRUE(answer.tool_calls.empty());
  EXPECT_TRUE(answer.text.starts_with("As you wish: <tool_call")) << answer.text;
  EXPECT_EQ(n_times(answer.text, "<tool_call>"), 0u) << answer.text;
}

// A grammar constrains the arguments, so they never have to be withdrawn once they are emitted.
TEST(ResponseFormatTest, ArgumentsAreStreamedIfAGrammarConstrainsThem) {
  for (const bool strict : {true, false}) {
    InTextFixture f("Let me see.\n" + kCall);
    AnswerRequest request = f.with_tools(strict);
    const auto heard = f.start(request);
    ASSERT_TRUE(heard->wait().ok());
    EXPECT_EQ(heard->called(), "weather({\"place\": \"here\"}");
    EXPECT_EQ(heard->call_id(), heard->answer_of().tool_calls.at(0).id);
    const auto n = std::count(heard->events().begin(), heard->events().end(), "tool_arguments");
    EXPECT_EQ(n > 1, strict) << n;
  }
}

// The format is that of turns without a call.
TEST(ResponseFormatTest, RequiredCallReplacesTheFormat) {
  FormFixture f;
  AnswerRequest request = f.with_call("none");
  request.form = {.kind = ResponseFormat::Kind::kJsonSchema, .text = kSchema};
  const Answer answer = f.answer(request);
  EXPECT_FALSE(answer.tool_calls.empty()) << answer.text;
  EXPECT_EQ(answer.content, "");
}

// If the template does not show the tools, the system message describes them.
TEST(ResponseFormatTest, CallCanBeRequiredIfTheTemplateShowsNoTools) {
  for (const bool has_system : {false, true}) {
    ServiceFixture f(ServiceFixture::quiet(), kChatMl);
    AnswerRequest request = ask(Json::array({user("x")}));
    request.options.max_tokens = 1000;
    if (has_system) request.messages.insert(request.messages.begin(), make_message(Role::kSystem, "Be brief."));
    request.tools = Json::array({tool_with("weather", kSchema)});
    const size_t n_plain = f.answer(request).usage.n_prompt;
    request.tool_choice.kind = ToolChoice::Kind::kRequired;
    const Answer answer = f.answer(request);
    EXPECT_EQ(f.count_prompt(request), answer.usage.n_prompt) << "the description of the tools counts";
    ASSERT_GE(answer.tool_calls.size(), 1u);
    EXPECT_EQ(answer.tool_calls[0].name, "weather");
    expect_place(answer.tool_calls[0].arguments);
    EXPECT_EQ(answer.content, "");
    EXPECT_GT(answer.usage.n_prompt, n_plain + std::string(kSchema).size() / 2);
  }
}

// A call that max_tokens cuts is no content, however much of it was sampled.
TEST(ResponseFormatTest, CutRequiredCallIsNotReturnedAsContent) {
  for (size_t n = 1; n < 20; n += 3) {
    FormFixture f;
    AnswerRequest request = f.with_call();
    request.options.max_tokens = n;
    const auto heard = f.start(request);
    ASSERT_TRUE(heard->wait().ok());
    EXPECT_EQ(heard->answer_of().content, "") << n;
    EXPECT_EQ(heard->answer_of().finish_reason, FinishReason::kLength);
  }
}

}  // namespace
}  // namespace ibid::serve
