// Formats whose markers are special tokens: such an answer has the right events, and prefills nothing when the client
// sends it back.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/session/turn_reply.h"
#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

struct SpecialForm {
  const char* name;
  const char* chat_template;
  std::vector<std::string> special;
  std::vector<std::string> ends;  // tokens that end a turn
  const char* prompt;             // the rendered question "x"
  const char* answer;             // a call of weather({"place": "here"})
  const char* reasoning;
  const char* behind;  // the rendered result "sun", after the token that ended the answer
};

void PrintTo(const SpecialForm& form, std::ostream* out) { *out << form.name; }

constexpr const char* kMistral =
    "{% if tools %}{{ '<tools>' }}{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'user' %}{{ '[INST] ' + m.content + '[/INST]' }}"
    "{% elif m.role == 'tool' %}{{ '[TOOL_RESULTS] ' + m.content + '[/TOOL_RESULTS]' }}"
    "{% elif m.tool_calls %}{{ '[TOOL_CALLS][' }}{% for call in m.tool_calls %}{% if not loop.first %}{{ ', ' }}"
    "{% endif %}{{ '{\"name\": \"' + call.function.name + '\", \"arguments\": ' + (call.function.arguments | tojson) + "
    "', \"id\": \"' + call.id + '\"}' }}{% endfor %}{{ ']</s>' }}"
    "{% else %}{{ m.content + '</s>' }}{% endif %}"
    "{% endfor %}";

constexpr const char* kLlama =
    "{% if tools %}{{ '<tools>' }}{% endif %}"
    "{% for m in messages %}"
    "{% if m.tool_calls %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
    "{{ '{\"name\": \"' + m.tool_calls[0].function.name + '\", \"parameters\": ' }}"
    "{{ (m.tool_calls[0].function.arguments | tojson) + '}<|eot_id|>' }}"
    "{% else %}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content + '<|eot_id|>' }}{% endif %}"
    "{% endfor %}"
    "{# <|python_tag|> #}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";

constexpr const char* kHarmony =
    "{% if tools %}{{ '<tools>' }}{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'tool' %}"
    "{{ '<|start|>functions.' + m.name + ' to=assistant<|channel|>commentary<|message|>' + m.content + '<|end|>' }}"
    "{% elif m.tool_calls %}"
    "{% if m.thinking %}{{ '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}{% endif %}"
    "{{ '<|start|>assistant<|channel|>commentary to=functions.' + m.tool_calls[0].function.name }}"
    "{{ ' <|constrain|>json<|message|>' + (m.tool_calls[0].function.arguments | tojson) + '<|call|>' }}"
    "{% elif m.role == 'assistant' %}{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}"
    "{% else %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}";

const SpecialForm kForms[] = {
    {"Mistral",
     kMistral,
     {"[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "</s>"},
     {"</s>"},
     "[INST] x[/INST]",
     "[TOOL_CALLS][{\"name\":\"weather\",\"arguments\":{\"place\": \"here\"},\"id\":\"abcdefghi\"}]</s>",
     "",
     "[TOOL_RESULTS] sun[/TOOL_RESULTS]"},
    {"Llama",
     kLlama,
     {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"},
     {"<|eot_id|>"},
     "<|start_header_id|>user<|end_header_id|>\n\nx<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
     "<|python_tag|>{\"name\":\"weather\",\"parameters\":{\"place\": \"here\"}}<|eot_id|>",
     "",
     "<|start_header_id|>tool<|end_header_id|>\n\nsun<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"Harmony",
     kHarmony,
     {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"},
     {"<|call|>", "<|return|>"},
     "<|start|>user<|message|>x<|end|><|start|>assistant",
     "<|channel|>analysis<|message|>I have to look.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.weather <|constrain|>json<|message|>{\"place\": \"here\"}<|call|>",
     "I have to look.",
     "<|start|>functions.weather to=assistant<|channel|>commentary<|message|>sun<|end|><|start|>assistant"},
};

struct SpecialFixture : ServiceFixture {
  explicit SpecialFixture(const SpecialForm& form)
      : ServiceFixture(quiet(), form.chat_template, {.vocab_size = 400}, 64u << 20, parts_of(form)) {}
  static EngineParts parts_of(const SpecialForm& form) {
    EngineParts parts;
    parts.tokenizer = std::make_unique<FakeTokenizer>(form.special, form.ends);
    return parts;
  }
  // Sets what the model samples from certain positions on.
  void says(std::vector<std::pair<size_t, Tokens>> answers) {
    chat.model->script = [answers = std::move(answers)](TokenSpan prefix) -> std::optional<TokenId> {
      for (const auto& [begin, ids] : answers) {
        if (prefix.size() >= begin && prefix.size() < begin + ids.size()) return ids[prefix.size() - begin];
      }
      return std::nullopt;
    };
  }
};

class SpecialReplyTest : public testing::TestWithParam<SpecialForm> {};

TEST_P(SpecialReplyTest, CallIsEmittedAndNotPrefilledAgainWhenSentBack) {
  const SpecialForm& form = GetParam();
  SpecialFixture f(form);
  const Tokens prompt = f.chat.ids(std::string("<tools>") + form.prompt), answer_ids = f.chat.ids(form.answer),
               behind = f.chat.ids(form.behind);
  const Tokens end(1, f.chat.tokenizer->find_token(form.ends[0]).value());
  Tokens fine = f.chat.ids(form.reasoning[0] == 0 ? "fine" : "<|channel|>final<|message|>fine");
  fine.push_back(end[0]);
  f.says({{prompt.size(), answer_ids}, {prompt.size() + answer_ids.size() + behind.size(), fine}});

  AnswerRequest request = ask(Json::array({user("x")}));
  request.options.max_tokens = 500;
  request.tools = parse_json(R"([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
      "properties": {"place": {"type": "string"}}}}}])",
                             "test")
                      .value();
  const auto heard = f.start(request);
  ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
  EXPECT_EQ(heard->n_prompt(), prompt.size());
  EXPECT_EQ(heard->called(), "weather({\"place\": \"here\"}");
  EXPECT_EQ(heard->said(), "");
  const Answer answer = heard->answer_of();
  EXPECT_EQ(answer.reasoning, form.reasoning);
  ASSERT_EQ(answer.tool_calls.size(), 1u) << answer.text;
  EXPECT_EQ(answer.tool_calls[0].id, heard->call_id());
  if (form.reasoning[0] != 0) {
    EXPECT_GT(std::count(heard->events().begin(), heard->events().end(), "reasoning"), 1) << "while it is streamed";
  }

  request.messages.push_back(message_of_answer(answer));
  Json result = make_message(Role::kTool, "sun");
  result["tool_call_id"] = answer.tool_calls[0].id;
  request.messages.push_back(result);
  const Answer next = f.answer(request);
  EXPECT_EQ(next.content, "fine");
  EXPECT_EQ(next.usage.n_prefilled, behind.size() + 1) << "the result, and the token that ended the answer";
  EXPECT_FALSE(next.lost_prefix.has_value()) << next.lost_prefix->to_string();
  EXPECT_EQ(f.service->stats().conversations.n_continued, 1u);
}

// A special token that is no marker stays in the conversation but is not shown.
TEST_P(SpecialReplyTest, SpecialTokenThatIsNoMarkerIsHiddenAndNotPrefilledAgain) {
  const SpecialForm& form = GetParam();
  SpecialFixture f(form);
  const Tokens prompt = f.chat.ids(form.prompt);
  const Tokens begin = f.chat.ids(form.reasoning[0] == 0 ? "" : "<|channel|>final<|message|>");
  const Tokens end(1, f.chat.tokenizer->find_token(form.ends[0]).value());
  const Tokens said = joined({begin, f.chat.ids("fi"), {f.chat.tokenizer->im_start}, f.chat.ids("ne"), end});
  f.says({{prompt.size(), said}});
  AnswerRequest request = ask(Json::array({user("x")}));
  request.options.max_tokens = 50;
  const auto heard = f.start(request);
  ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
  EXPECT_EQ(heard->said(), "fine");
  const Answer answer = heard->answer_of();
  EXPECT_EQ(answer.content, "fine");
  EXPECT_EQ(answer.text.find("<|im_start|>"), std::string::npos) << answer.text;
  EXPECT_EQ(answer.usage.n_decoded, said.size());
  request.messages.push_back(message_of_answer(answer));
  request.messages.push_back(user("y"));
  const Answer next = f.answer(request);
  EXPECT_EQ(next.usage.n_prompt - next.usage.n_prefilled, prompt.size() + said.size() - 1) << "all evaluated tokens";
}

// The text that the model writes by itself is noise, but it does not think.
TEST_P(SpecialReplyTest, RequiredCallIsMadeWithSpecialTokens) {
  const SpecialForm& form = GetParam();
  SpecialFixture f(form);
  f.says({{f.chat.ids(std::string("<tools>") + form.prompt).size(),
           f.chat.ids(form.reasoning[0] == 0 ? "" : "<|channel|>commentary")}});
  AnswerRequest request = ask(Json::array({user("x")}));
  request.options.max_tokens = 1000;
  request.tools = parse_json(R"([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
      "properties": {"place": {"enum": ["here", "there"]}}, "required": ["place"],
      "additionalProperties": false}}}])",
                             "test")
                      .value();
  request.tool_choice = {.kind = ToolChoice::Kind::kNamed, .name = "weather"};
  const Answer answer = f.answer(request);
  EXPECT_EQ(answer.content, "");
  ASSERT_EQ(answer.tool_calls.size(), 1u) << answer.text;
  EXPECT_EQ(answer.tool_calls[0].name, "weather");
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
}

// The recipient may precede the channel, as in the template, or follow it.
TEST(HarmonyTest, RequiredCallKeepsTheModelsSpelling) {
  const SpecialForm& form = kForms[2];
  for (const char* header : {" to=functions.weather<|channel|>commentary json<|message|>",
                             " to=functions.weather<|channel|>commentary <|constrain|>json<|message|>",
                             "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>",
                             "<|channel|>commentary to=functions.weather<|message|>"}) {
    for (const auto kind : {ToolChoice::Kind::kNamed, ToolChoice::Kind::kAuto}) {
      SCOPED_TRACE(header);
      SpecialFixture f(form);
      Tokens said = f.chat.ids(header + std::string("{\"place\": \"here\"}"));
      const Tokens end(1, f.chat.tokenizer->find_token(form.ends[0]).value());
      said.push_back(end[0]);
      f.says({{f.chat.ids(std::string("<tools>") + form.prompt).size(), said}});
      AnswerRequest request = ask(Json::array({user("x")}));
      request.options.max_tokens = 1000;
      request.tools = parse_json(R"([{"type": "function", "function": {"name": "weather", "strict": true, "parameters":
          {"type": "object", "properties": {"place": {"enum": ["here", "there"]}}, "required": ["place"],
          "additionalProperties": false}}}])",
                                 "test")
                          .value();
      request.tool_choice = {.kind = kind, .name = "weather"};
      const Answer answer = f.answer(request);
      ASSERT_EQ(answer.tool_calls.size(), 1u) << answer.text;
      EXPECT_EQ(answer.usage.n_decoded, said.size()) << answer.text;
      EXPECT_EQ(answer.tool_calls[0].arguments, "{\"place\": \"here\"}");
      EXPECT_EQ(answer.content, "");
    }
  }
}

TEST_P(SpecialReplyTest, FormatConstrainsTheContentAndNotTheMarkers) {
  const SpecialForm& form = GetParam();
  SpecialFixture f(form);
  f.says({{f.chat.ids(form.prompt).size(), f.chat.ids(form.reasoning[0] == 0 ? "{" : "<|channel|>final<|message|>")}});
  AnswerRequest request = ask(Json::array({user("x")}));
  request.options.max_tokens = 1000;
  request.form = {.kind = ResponseFormat::Kind::kJsonSchema,
                  .text = R"({"type": "object", "properties": {"place": {"enum": ["here", "there"]}},
                              "required": ["place"], "additionalProperties": false})"};
  const Answer answer = f.answer(request);
  const Result<Json> json = parse_json(answer.content, "the answer");
  ASSERT_TRUE(json.ok()) << answer.text;
  EXPECT_TRUE(json->contains("place"));
}

INSTANTIATE_TEST_SUITE_P(Forms, SpecialReplyTest, testing::ValuesIn(kForms),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace ibid::serve
