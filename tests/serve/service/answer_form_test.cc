// Answers that have a form, or have to call a tool: where the form begins, in front of it reasoning and nothing else.
#include <gtest/gtest.h>

#include "tests/serve/service/service_fixture.h"

namespace ibid::serve {
namespace {

// Thinks first, unless it is told not to; "open": the prompt begins the reasoning.
constexpr const char* kThinks =
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
  // `text` as the model says it; what comes then is its own.
  void begins_with(const std::string& text, const std::string& prompt) {
    const Tokens ids = chat.tokenizer->encode(text, TextOrigin::kInput, false);
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
    out.form = {.kind = AnswerForm::Kind::kJsonSchema, .text = kSchema};
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

void expect_place(const std::string& text) {
  const Result<Json> json = parse_json(text, "the answer");
  ASSERT_TRUE(json.ok()) << text;
  EXPECT_TRUE((*json)["place"] == "here" || (*json)["place"] == "there") << text;
}

TEST(AnswerFormTest, AFormBeginsBehindReasoningThatTheModelBegins) {
  FormFixture f;
  f.begins_with("<think>\nA place, \"{\" or so.\n</think>\n\nHello", kPrompt);
  const Answer answer = f.answer(f.with_schema());
  EXPECT_EQ(answer.reasoning, "A place, \"{\" or so.");
  expect_place(answer.content);
}

TEST(AnswerFormTest, AFormBeginsBehindReasoningThatThePromptBegins) {
  FormFixture f;
  f.begins_with("A place.\n</think>\n\nHello", std::string(kPrompt) + "<think>\n");
  const Answer answer = f.answer(f.with_schema("open"));
  EXPECT_EQ(answer.reasoning, "A place.");
  expect_place(answer.content);
}

TEST(AnswerFormTest, WithoutReasoningAFormBeginsAtOnce) {
  for (const char* thinking : {"", "none"}) {
    FormFixture f;
    f.begins_with("{ a place", std::string(kPrompt) + (thinking[0] == 0 ? "" : "<think>\n\n</think>\n\n"));
    const Answer answer = f.answer(f.with_schema(thinking));
    EXPECT_EQ(answer.reasoning, "") << thinking;
    expect_place(answer.content);
  }
  FormFixture f;
  f.begins_with("<think>\n", std::string(kPrompt) + "<think>\n\n</think>\n\n");
  EXPECT_FALSE(f.answer(f.with_schema("none")).text.starts_with("<think>")) << "the prompt has closed it";
}

TEST(AnswerFormTest, ADemandedCallBeginsAtOnce) {
  FormFixture f;
  f.begins_with("I am a model that would rather talk.", std::string(kPrompt) + "<think>\n\n</think>\n\n");
  const Answer answer = f.answer(f.with_call("none"));
  EXPECT_EQ(answer.content, "");
  ASSERT_GE(answer.tool_calls.size(), 1u) << answer.text;
  EXPECT_TRUE(answer.text.starts_with("<tool_call>")) << answer.text;
  for (const ToolCall& call : answer.tool_calls) expect_place(call.arguments);
}

TEST(AnswerFormTest, ADemandedCallBeginsBehindReasoning) {
  FormFixture f;
  f.begins_with("<think>\nWhich one?\n</think>\n\nI would rather talk.", kPrompt);
  const Answer answer = f.answer(f.with_call());
  EXPECT_EQ(answer.reasoning, "Which one?");
  EXPECT_EQ(answer.content, "");
  EXPECT_GE(answer.tool_calls.size(), 1u) << answer.text;
}

TEST(AnswerFormTest, ACallHasTheArgumentsThatAreListed) {
  FormFixture f;
  AnswerRequest request = f.with_call("none");
  for (Json& tool : request.tools) tool["function"]["parameters"].erase("additionalProperties");
  const Answer answer = f.answer(request);
  ASSERT_GE(answer.tool_calls.size(), 1u) << answer.text;
  for (const ToolCall& call : answer.tool_calls) EXPECT_EQ(parse_json(call.arguments, "test")->size(), 1u);
}

TEST(AnswerFormTest, ANamedFunctionIsCalledOnce) {
  FormFixture f;
  f.begins_with("No.", kPrompt);
  AnswerRequest request = f.with_call();
  request.tool_choice = {.kind = ToolChoice::Kind::kNamed, .name = "time"};
  const Answer answer = f.answer(request);
  ASSERT_EQ(answer.tool_calls.size(), 1u) << answer.text;
  EXPECT_EQ(answer.tool_calls[0].name, "time");
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
}

}  // namespace
}  // namespace ibid::serve
