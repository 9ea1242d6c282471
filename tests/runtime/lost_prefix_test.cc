// Explanations of a lost prefix: the place, the tokens, and the cause.
#include "runtime/prompt/lost_prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/prompt/prompt_planner.h"
#include "templates/chat_template.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

using testing::HasSubstr;

// A template with a date, tools and a system message first, as many have.
constexpr const char* kElaborate =
    "{{ 'Today: ' + today + '\n' }}"
    "{% if tools %}{{ 'tools: ' + (tools | join(', ')) + '\n' }}{% endif %}"
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// The explanation in the second turn of a conversation if the variables differ.
LostPrefix lost(const char* chat_template, Json before, Json after) {
  ChatFixture f(chat_template);
  f.say({f.tokenizer->sampled({"ab"})});
  const auto plan = [&](Json variables, const Json& messages, const Transcript& transcript) {
    TemplateVariables v;
    v.values = std::move(variables);
    PromptPlanner planner(*f.tokenizer, *f.engine->state().chat_template(), std::move(v), f.engine->state().clock());
    return *planner.plan(MessageList(messages), transcript);
  };
  Json messages = Json::array({{{"role", "user"}, {"content", "Hello"}}});
  Transcript transcript;
  transcript.apply(plan(std::move(before), messages, transcript).patch);
  const size_t n_held = transcript.ids().size();
  const PromptDelta delta = plan(std::move(after), messages, transcript);
  return explain_lost_prefix(delta, transcript, messages, *f.tokenizer, n_held);
}

TEST(LostPrefixTest, ChangedDateIsReportedAsTheCause) {
  const LostPrefix l = lost(kElaborate, {{"today", "2026-01-31"}}, {{"today", "2026-02-01"}});
  EXPECT_EQ(l.cause, LostCause::kDateChanged);
  EXPECT_THAT(l.to_string(), HasSubstr("a date changed"));
  EXPECT_EQ(l.was.substr(0, 4), "1-31");
  EXPECT_EQ(l.now.substr(0, 4), "2-01");
  EXPECT_EQ(l.was_token, "1");
  EXPECT_EQ(l.now_token, "2");
}

TEST(LostPrefixTest, ReorderedToolsAreReportedAsTheCause) {
  const LostPrefix l = lost(kElaborate, {{"today", "x"}, {"tools", {"add", "subtract"}}},
                            {{"today", "x"}, {"tools", {"subtract", "add"}}});
  EXPECT_EQ(l.cause, LostCause::kToolsChanged);
}

TEST(LostPrefixTest, ChangedTemplateTextIsReportedAsTheCause) {
  const std::string styled = std::string("{{ 'style ' + style + '\n' }}") + kChatMl;
  const LostPrefix l = lost(styled.c_str(), {{"style", "x"}}, {{"style", "y"}});
  EXPECT_EQ(l.cause, LostCause::kTemplate);
}

TEST(LostPrefixTest, EvictedStatesAndWindowsAreReportedAsTheCause) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"ab"})});
  ChatSession chat = f.session();
  must(chat.send("Hello", greedy()));
  for (const LostCause cause : {LostCause::kStateGone, LostCause::kWindowGone}) {
    const size_t n_found = f.prompt("Hello").size();  // before the answer
    const LostPrefix l = explain_missing_rows(cause, 7, n_found, chat.state().transcript(), chat.state().messages());
    EXPECT_TRUE(is_missing_rows(l.cause));
    EXPECT_EQ(l.cause, cause);
    EXPECT_EQ(l.n_tokens, 7u);
    EXPECT_EQ(l.token, n_found);
    EXPECT_EQ(l.message, 1u);
    EXPECT_THAT(l.to_string(), HasSubstr("7 cached tokens are prefilled again, from token " + std::to_string(n_found)));
    EXPECT_THAT(l.to_string(), HasSubstr(std::string(lost_cause_text(cause))));
  }
  EXPECT_FALSE(is_missing_rows(LostCause::kMessageChanged));
}

TEST(LostPrefixTest, RemovedThinkingIsReportedAsTheCause) {
  ChatFixture f(kStripsThinking);
  f.say({f.tokenizer->sampled({"<think>", "ing", "</think>", "Hello"}), f.tokenizer->sampled({"ab"})});
  ChatSession chat = f.session();
  must(chat.send("x", greedy()));
  const Turn turn = must(chat.send("y", greedy()));
  ASSERT_TRUE(turn.lost_prefix.has_value());
  EXPECT_EQ(turn.lost_prefix->cause, LostCause::kThinkingRemoved);
  EXPECT_EQ(turn.lost_prefix->was_token, "<think>");
  EXPECT_EQ(turn.lost_prefix->now_token, "Hello");
  EXPECT_THAT(turn.lost_prefix->to_string(), HasSubstr("thinking"));
}

TEST(LostPrefixTest, ChangedMessageIsReportedAsTheCause) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"ab"}), f.tokenizer->sampled({"lo"})});
  ChatSession chat = f.session();
  must(chat.send("Hello there", greedy()));
  Json history = chat.state().messages();
  history[0]["content"] = "Hello  there";
  history.push_back({{"role", "user"}, {"content", "x"}});
  ASSERT_TRUE(chat.state().set_history(history).ok());
  const Turn turn = must(chat.answer(greedy()));
  ASSERT_TRUE(turn.lost_prefix.has_value());
  EXPECT_EQ(turn.lost_prefix->cause, LostCause::kMessageChanged);
  EXPECT_EQ(turn.lost_prefix->message, 0u);
}

}  // namespace
}  // namespace ibid
