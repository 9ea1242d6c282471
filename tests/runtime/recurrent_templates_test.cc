// Conversations of a recurrent model with a real template that shows only the last answer's thinking: only the
// rewritten answers and later tokens are prefilled again.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file_ops.h"
#include "templates/message.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/paths.h"

namespace ibid {
namespace {

constexpr size_t kTemplateTurns = 10;
const std::string kOpensThinking = "<think>\n";

struct TemplateChat : ChatFixture {
  explicit TemplateChat(const std::string& source)
      : ChatFixture(source.c_str(), {.max_seq_len = 32768, .recurrent = true}) {}

  size_t n_tokens(const std::string& text) const { return ids(text).size(); }
  // Whole answers, after the header that the template writes.
  void say_all(const std::vector<std::string>& texts) {
    std::vector<Tokens> replies;
    for (const std::string& text : texts) replies.push_back(ids(kOpensThinking + text + "<|im_end|>"));
    say(replies);
  }
};

std::string asked_text(size_t i) { return "Question " + std::string(3 + 40 * (i % 3), static_cast<char>('a' + i)); }
std::string said_text(size_t i) { return "Answer " + std::string(5 + 90 * (i % 2), static_cast<char>('a' + i)); }
std::string thought_text(size_t i) {
  return std::string(20 + 70 * (i % 3), static_cast<char>('k' + i)) + "\n</think>\n\n";
}
std::string asking_text(const std::string& text) {
  return "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n" + kOpensThinking;
}

TurnOptions parsing_greedy() {
  TurnOptions options = greedy(400);
  options.parse_reply = true;
  return options;
}

std::string qwen_source(const std::string& shared) {
  return *read_file(system_file_ops(), shared + "/reference/templates/templates/Qwen3.5-4B.jinja", 1u << 20);
}

TEST(RecurrentTemplatesTest, QwenReprefillsAnswerAfterThinkingIsStripped) {
  IBID_NEED_SHARED(shared);
  TemplateChat f(qwen_source(shared));
  std::vector<std::string> texts;
  for (size_t i = 0; i < kTemplateTurns; ++i) texts.push_back(thought_text(i) + said_text(i));
  f.say_all(texts);
  for (const bool parses : {false, true}) {
    ChatSession chat = f.session({.system = std::string(300, parses ? 's' : 't')});
    for (size_t i = 0; i < kTemplateTurns; ++i) {
      const Turn turn = must(chat.send(asked_text(i), parses ? parsing_greedy() : greedy(400)));
      EXPECT_EQ(turn.text, texts[i]);
      EXPECT_EQ(turn.usage.n_reprefilled, 0u) << i;
      if (i == 0) continue;
      EXPECT_LE(turn.usage.n_prefilled, f.n_tokens(said_text(i - 1) + "<|im_end|>\n" + asking_text(asked_text(i))))
          << i;
      ASSERT_TRUE(turn.lost_prefix.has_value()) << i;
      EXPECT_NE(turn.lost_prefix->was.find("<think>"), std::string::npos) << turn.lost_prefix->to_string();
    }
    expect_replays(chat);
  }
}

// A question, a call, its result, an answer: the loop's thinking stays until the next question.
TEST(RecurrentTemplatesTest, QwenReprefillsToolLoopAfterThinkingIsStripped) {
  IBID_NEED_SHARED(shared);
  TemplateChat f(qwen_source(shared));
  const auto call = [](size_t i) {
    return "<tool_call>\n<function=add>\n<parameter=a>\n" + std::to_string(i) +
           "\n</parameter>\n</function>\n</tool_call>";
  };
  const auto result = [](size_t i) { return std::string(1 + 50 * (i % 2), static_cast<char>('1' + i % 9)); };
  const auto result_asked = [&](size_t i) {
    return asking_text("<tool_response>\n" + result(i) + "\n</tool_response>");
  };
  std::vector<std::string> texts;
  for (size_t i = 0; i < kTemplateTurns; ++i) {
    texts.push_back(thought_text(i) + call(i));
    texts.push_back(thought_text(i + 1) + said_text(i));
  }
  f.say_all(texts);
  const Json parameters = {{"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}};
  const Json tool = {{"type", "function"}, {"function", {{"name", "add"}, {"parameters", parameters}}}};
  ChatSession chat = f.session({.system = "be the best"}, {{"tools", Json::array({tool})}});
  for (size_t i = 0; i < kTemplateTurns; ++i) {
    const Turn asking = must(chat.send(asked_text(i), parsing_greedy()));
    ASSERT_EQ(asking.tool_calls.size(), 1u) << asking.text;
    EXPECT_EQ(asking.usage.n_reprefilled, 0u) << i;
    if (i > 0) {
      const std::string rewritten =
          call(i - 1) + "<|im_end|>\n" + result_asked(i - 1) + said_text(i - 1) + "<|im_end|>\n";
      EXPECT_LE(asking.usage.n_prefilled, f.n_tokens(rewritten + asking_text(asked_text(i)))) << i;
    }
    ASSERT_TRUE(chat.state().append(make_message(Role::kTool, result(i))).ok());
    const Turn answering = must(chat.answer(parsing_greedy()));
    EXPECT_EQ(answering.content, said_text(i));
    EXPECT_EQ(answering.usage.n_prefilled, f.n_tokens("<|im_end|>\n" + result_asked(i))) << "only the result";
    EXPECT_EQ(answering.usage.n_reprefilled, 0u) << i;
  }
  expect_replays(chat);
}

}  // namespace
}  // namespace ibid
