// Reasoning and tool calls: the events for the client, and the tokens prefilled when the history is sent back.
#include <gtest/gtest.h>

#include "runtime/session/turn_reply.h"
#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

constexpr const char* kCalls =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message.reasoning_content %}{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{% endif %}"
    "{{ message['content'] }}"
    "{% for call in message.tool_calls %}"
    "{{ '<tool_call>\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}"
    "{{ call.function.arguments | tojson }}{{ '}\n</tool_call>' }}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

Json weather_tool() {
  return parse_json(R"([{"type": "function", "function": {"name": "weather", "description": "The weather of a place.",
      "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}}])",
                    "test")
      .value();
}

struct ReplyFixture : ServiceFixture {
  explicit ReplyFixture(const char* chat_template = kCalls) : ServiceFixture(quiet(), chat_template) {}
  // Sets the model's answers, one per turn. They have one token per byte, which no encoding gives.
  void says(const std::vector<std::string>& answers) {
    std::vector<Tokens> replies;
    for (const std::string& text : answers) {
      Tokens ids;
      for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
      replies.push_back(std::move(ids));
    }
    chat.say(replies);
  }
  AnswerRequest request(const Json& messages) {
    AnswerRequest out = ask(messages);
    out.options.max_tokens = 500;
    return out;
  }
};

TEST(AnswerReplyTest, ReasoningIsSeparateAndMayBeOmittedFromTheHistory) {
  for (const bool sends_it_back : {false, true}) {
    ReplyFixture f;
    f.says({"<think>\nwhy\n</think>\n\nHello", "on"});
    Json messages = Json::array({user("x")});
    const Answer answer = f.answer(f.request(messages));
    EXPECT_EQ(answer.reasoning, "why");
    EXPECT_EQ(answer.content, "Hello");
    messages.push_back(make_message(Role::kAssistant, "Hello"));
    if (sends_it_back) messages.back()["reasoning_content"] = "why";
    messages.push_back(user("y"));
    const Answer next = f.answer(f.request(messages));
    EXPECT_EQ(next.content, "on");
    EXPECT_EQ(next.usage.n_prefilled, f.chat.next_prompt("y").size() + 1) << "the tokens are those that were sampled";
    EXPECT_EQ(f.service->stats().conversations.n_continued, 1u);
  }
}

// A call in the form of the template, and calls that are the whole answer: the history keeps what was sampled.
TEST(AnswerReplyTest, UnchangedToolCallIsNotPrefilledAgain) {
  const std::string object = "{\"name\": \"weather\", \"arguments\": {\"place\":   \"here\"}}";
  for (const std::string& call :
       {"<tool_call>\n" + object + "\n</tool_call>", "```json\n" + object + "\n```", object}) {
    SCOPED_TRACE(call);
    ReplyFixture f;
    f.says({call, "fine"});
    AnswerRequest request = f.request(Json::array({user("x")}));
    request.tools = weather_tool();
    const auto heard = f.start(request);
    ASSERT_TRUE(heard->wait().ok());
    const Answer& answer = heard->answer_of();
    ASSERT_EQ(answer.tool_calls.size(), 1u);
    EXPECT_EQ(answer.tool_calls[0].name, "weather");
    EXPECT_EQ(answer.tool_calls[0].arguments, "{\"place\":   \"here\"}") << "the model's spelling";
    EXPECT_EQ(answer.tool_calls[0].id.size(), 9u);
    EXPECT_EQ(answer.content, "");
    EXPECT_EQ(answer.text, call);

    Json sent = message_of_answer(answer);
    sent["content"] = Json();
    request.messages.push_back(sent);
    Json result = make_message(Role::kTool, "sun");
    result["tool_call_id"] = answer.tool_calls[0].id;
    request.messages.push_back(result);
    const Answer next = f.answer(request);
    EXPECT_EQ(next.content, "fine");
    EXPECT_EQ(next.usage.n_prefilled,
              f.chat.ids("\n<|im_start|>tool\nsun<|im_end|>\n<|im_start|>assistant\n").size() + 1);
    EXPECT_EQ(f.service->stats().conversations.n_continued, 1u);
  }
}

TEST(AnswerReplyTest, CallSyntaxIsTextIfNoToolsAreOffered) {
  ReplyFixture f;
  const std::string call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>";
  f.says({call});
  EXPECT_EQ(f.answer(f.request(Json::array({user("x")}))).content, call);
}

// The template refuses a tool's result that follows an answer without calls, so it must receive the calls.
TEST(AnswerReplyTest, TemplateReceivesToolCalls) {
  static const std::string strict =
      std::string(
          "{% for message in messages %}{% if message['role'] == 'tool' and "
          "not messages[loop.index0 - 1].tool_calls %}{{ raise_exception('a result without a call') }}"
          "{% endif %}{% endfor %}") +
      kCalls;
  ReplyFixture f(strict.c_str());
  f.says({"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"here\"}}\n</tool_call>", "fine"});
  AnswerRequest request = f.request(Json::array({user("x")}));
  request.tools = weather_tool();
  const Answer answer = f.answer(request);
  ASSERT_EQ(answer.tool_calls.size(), 1u);
  request.messages.push_back(message_of_answer(answer));
  request.messages.push_back(make_message(Role::kTool, "sun"));
  const Answer next = f.answer(request);
  EXPECT_EQ(next.content, "fine");
  EXPECT_EQ(next.usage.n_prefilled,
            f.chat.ids("\n<|im_start|>tool\nsun<|im_end|>\n<|im_start|>assistant\n").size() + 1);
}

}  // namespace
}  // namespace ibid::serve
