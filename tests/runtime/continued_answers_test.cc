// Answers that are continued: the same tokens and bits as answers that were not cut, and given beginnings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/chat_fixture.h"
#include "tests/runtime/tiny_chat.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;

TurnOptions parsed(TurnOptions options) {
  options.parse_reply = true;
  return options;
}

std::string last_content(const ChatSession& session) { return session.message(session.n_messages() - 1).content; }

// The bits of a cut and continued answer are those of the whole one, for every type of keys and values.
TEST(ContinuedAnswerTest, CutAndContinuedAnswerEqualsTheUncutAnswer) {
  for (const WeightsAndKv& kind : kEveryKvType) {
    ColdModel cold(kind);
    const auto engine = tiny_engine(kind, {}, 2, 64, kChatMl);
    const auto session = [&] { return *ChatSession::create(engine, {.repair_when_idle = false}); };
    ChatSession whole = session();
    const Turn uncut = must(whole.send("Hello, tell me of it", greedy(60)));
    for (const size_t n_cut : {1u, 7u, 30u}) {
      ChatSession cut = session();
      const Turn first = must(cut.send("Hello, tell me of it", greedy(n_cut)));
      const Turn rest = must(cut.continue_answer(greedy(60 - n_cut)));
      EXPECT_EQ(first.text + rest.text, uncut.text) << kind.name << ", " << n_cut;
      EXPECT_LE(rest.usage.n_prefilled, 1u) << "only the last token has no keys and values";
      EXPECT_EQ(cut.ids(), whole.ids());
      EXPECT_EQ(last_content(cut), last_content(whole));
      expect_cold_bits(cut, cold);
      // The conversation goes on as if the answer had not been cut.
      const Turn next = must(cut.send("And then?", greedy(8)));
      EXPECT_LE(next.usage.n_prefilled, 60u);
      EXPECT_FALSE(next.lost_prefix.has_value());
      expect_cold_bits(cut, cold);
    }
  }
}

TEST(ContinuedAnswerTest, ContinuedAnswerKeepsItsSampledTokens) {
  ChatFixture f;
  ChatSession session = f.session();
  // "ab" has a token of its own, but was sampled in two; "the" in one.
  const Tokens first = f.tokenizer->sampled({"a", "b", " ", "the"});
  f.model->script = [&, n = size_t{0}](TokenSpan) mutable -> std::optional<TokenId> {
    const Tokens all = joined({first, f.tokenizer->sampled({"ing", "!"}), {f.tokenizer->im_end}});
    return all[n++ % all.size()];
  };
  must(session.send("Hi", greedy(4)));
  const size_t n_prompt = session.ids().size() - 4;
  const Turn rest = must(session.continue_answer(greedy(24)));
  EXPECT_EQ(rest.text, "ing!");
  EXPECT_EQ(rest.usage.n_prompt, n_prompt + 4);
  EXPECT_EQ(rest.finish_reason, FinishReason::kStop);
  EXPECT_EQ(last_content(session), "ab theing!");
  expect_replays(session);
  const TokenSpan ids = TokenSpan(session.ids()).subspan(n_prompt, 4);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), first.begin()));
  // Another end: the token that ended the turn is not part of what is continued.
  f.model->script = [&](TokenSpan prefix) -> std::optional<TokenId> {
    return prefix.back() == '?' ? f.tokenizer->im_end : '?';
  };
  EXPECT_EQ(must(session.continue_answer(greedy(24))).text, "?");
  EXPECT_EQ(last_content(session), "ab theing!?");
  EXPECT_EQ(session.n_messages(), 2u);
  expect_replays(session);
  // Regenerating replaces the whole answer.
  EXPECT_EQ(must(session.regenerate(greedy(24))).text, "?");
  EXPECT_EQ(last_content(session), "?");
}

// A given beginning is text of the prompt; nothing of it is part of the turn.
TEST(ContinuedAnswerTest, GivenBeginningOfAnAnswerIsContinued) {
  struct Case {
    const char* chat_template;
    std::string given, prompt_end;
  };
  const Case cases[] = {{kChatMl, "The answer is", "assistant\nThe answer is"},
                        {kChatMl, " two  \n", "assistant\n two  \n"},
                        {kTrims, " two  \n", "assistant\ntwo  \n"},
                        {kTrims, "<|im_end|>", "assistant\n<|im_end|>"}};
  for (const Case& one : cases) {
    ChatFixture f(one.chat_template);
    f.model->script = [](TokenSpan) -> std::optional<TokenId> { return '!'; };
    ChatSession session = f.session();
    ASSERT_TRUE(session.set_history({{"user", "Q"}, {"assistant", one.given}}).ok());
    const Turn turn = must(session.continue_answer(parsed(greedy(1))));
    EXPECT_EQ(turn.content, "!") << one.given;
    EXPECT_EQ(last_content(session), one.given + "!");
    EXPECT_EQ(session.n_messages(), 2u);
    const std::string bytes(session.state().transcript().bytes());
    EXPECT_THAT(bytes, HasSubstr(one.prompt_end + "!")) << one.given;
    EXPECT_EQ(std::ranges::count(session.ids(), f.tokenizer->im_end), 1) << "text of a message is no control token";
    expect_replays(session);
    // A second part is added to the sampled first one, and nothing but its last token is read.
    const Turn more = must(session.continue_answer(parsed(greedy(1))));
    EXPECT_LE(more.usage.n_prefilled, one.chat_template == kTrims ? 20u : 1u) << one.given;
    EXPECT_EQ(last_content(session), one.given + "!!");
    expect_replays(session);
    EXPECT_EQ(must(session.send("Q", greedy(1))).text, "!");
    expect_replays(session);
  }
}

TEST(ContinuedAnswerTest, ChangedPromptBeforeTheAnswerIsPrefilledAgain) {
  ChatFixture f;
  f.model->script = [](TokenSpan) -> std::optional<TokenId> { return '!'; };
  ChatSession session = f.session();
  ASSERT_TRUE(session.set_history({{"user", "one"}, {"assistant", "first"}, {"user", "two"}}).ok());
  must(session.answer(greedy(1)));
  ASSERT_TRUE(session.set_history({{"user", "ONE"}, {"assistant", "first"}, {"user", "two"}, {"assistant", "!"}}).ok());
  const Turn turn = must(session.continue_answer(greedy(1)));
  EXPECT_GT(turn.usage.n_prefilled, 10u);
  EXPECT_EQ(last_content(session), "!!");
  expect_replays(session);
}

// Reasoning that was cut goes on as reasoning, and a marker that was cut in half stays a marker.
TEST(ContinuedAnswerTest, CutReasoningAndMarkersAreContinued) {
  const std::string reply = "<think>deep</think>Answer";
  for (size_t n_cut = 1; n_cut < reply.size(); ++n_cut) {
    ChatFixture f(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
    f.model->script = [&](TokenSpan prefix) -> std::optional<TokenId> {
      size_t n = 0;
      while (n < prefix.size() && prefix[prefix.size() - 1 - n] != '\n') ++n;
      return n < reply.size() ? static_cast<TokenId>(reply[n]) : f.tokenizer->im_end;
    };
    ChatSession session = f.session();
    const Turn first = must(session.send("Q", parsed(greedy(n_cut))));
    const Turn rest = must(session.continue_answer(parsed(greedy(50))));
    EXPECT_EQ(first.text + rest.text, reply);
    const Turn whole = must(f.session().send("Q", parsed(greedy(50))));
    EXPECT_EQ(rest.finish_reason, FinishReason::kStop);
    EXPECT_TRUE(whole.content.ends_with(rest.content)) << n_cut << ": " << rest.content;
    EXPECT_TRUE(whole.reasoning.ends_with(rest.reasoning)) << n_cut << ": " << rest.reasoning;
    expect_rows_replay(session);
  }
}

// A constraint is for the whole answer: a cut answer is continued as if it had not been cut, and a given beginning
// counts.
TEST(ContinuedAnswerTest, ConstraintAppliesToTheWholeAnswer) {
  ChatFixture f;
  TurnOptions formed = greedy(60);
  formed.constraint = *f.engine->regex_constraint("(left|right)(, (left|right)){4}");
  ChatSession whole = f.session();
  const Turn uncut = must(whole.send("Hi", formed));
  for (const size_t n_cut : {1u, 5u, 17u}) {
    ChatSession cut = f.session();
    TurnOptions first = formed, rest = formed;
    first.max_tokens = n_cut;
    const std::string begin = must(cut.send("Hi", first)).text;
    EXPECT_EQ(begin + must(cut.continue_answer(rest)).text, uncut.text) << n_cut;
    EXPECT_EQ(cut.ids(), whole.ids()) << n_cut;
  }
  for (const char* given : {"left, ri", "right"}) {
    ChatSession session = f.session();
    ASSERT_TRUE(session.set_history({{"user", "Q"}, {"assistant", given}}).ok());
    const Turn turn = must(session.continue_answer(formed));
    EXPECT_TRUE(turn.text.starts_with(std::string_view(given).ends_with("ri") ? "ght, " : ", ")) << turn.text;
  }
  // A beginning that is a whole text of the grammar is at its end.
  ChatSession done = f.session();
  ASSERT_TRUE(done.set_history({{"user", "Q"}, {"assistant", "yes"}}).ok());
  formed.constraint = *f.engine->choice_constraint({"yes", "no"});
  const Turn nothing = must(done.continue_answer(formed));
  EXPECT_EQ(nothing.text, "");
  EXPECT_EQ(nothing.finish_reason, FinishReason::kStop);
}

TEST(ContinuedAnswerTest, FailedTurnsChangeNothing) {
  ChatFixture f(kChatMl, {.max_seq_len = 64});
  ChatSession session = f.session();
  const auto refused = [&](const TurnOptions& options = greedy()) {
    const std::string before = session.messages_json();
    const Status status = session.continue_answer(options).status();
    EXPECT_EQ(session.messages_json(), before);
    return status;
  };
  EXPECT_THAT(refused().message(), HasSubstr("no answer to continue"));
  ASSERT_TRUE(session.set_history({{"user", "Q"}}).ok());
  EXPECT_THAT(refused().message(), HasSubstr("no answer to continue"));
  ASSERT_TRUE(session.set_history({{"user", "Q"}, {"assistant", ""}}).ok());
  EXPECT_THAT(refused().message(), HasSubstr("no text"));
  ASSERT_TRUE(session
                  .set_history({{"user", "Q"},
                                {"assistant", "a", R"({"tool_calls": [{"type": "function", "function": {"name": "f",
                                                      "arguments": "{}"}}]})"}})
                  .ok());
  EXPECT_THAT(refused().message(), HasSubstr("tool calls"));
  ASSERT_TRUE(session.set_history({{"user", "Q"}, {"assistant", std::string(64, 'a')}}).ok());
  EXPECT_EQ(refused().code(), ErrorCode::kContextFull);
  ASSERT_TRUE(session.set_history({{"user", "Q"}, {"assistant", "a"}}).ok());
  TurnOptions formed = greedy();
  formed.constraint = *f.engine->choice_constraint({"yes", "no"});
  EXPECT_THAT(refused(formed).message(), HasSubstr("is not the beginning of any answer that the constraint"));
  std::stop_source stop;
  stop.request_stop();
  TurnOptions stopped = greedy();
  stopped.stop = stop.get_token();
  EXPECT_EQ(refused(stopped).code(), ErrorCode::kCancelled);
  f.model->before_layer = [](size_t, size_t) { return Status(ErrorCode::kOutOfMemory, "none"); };
  EXPECT_EQ(refused().code(), ErrorCode::kOutOfMemory);
  f.model->before_layer = {};
  must(session.continue_answer(greedy(4)));
  expect_replays(session);
  // A template that drops the answer.
  ChatFixture drops("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}");
  ChatSession other = drops.session();
  ASSERT_TRUE(other.set_history({{"user", "Q"}, {"assistant", "a"}}).ok());
  EXPECT_THAT(other.continue_answer(greedy()).status().message(), HasSubstr("does not show"));
}

// The tokens of a continued answer are in saved conversations as those of any other.
TEST(ContinuedAnswerTest, SavedConversationKeepsTheTokensOfAContinuedAnswer) {
  ChatFixture f;
  f.model->script = [&](TokenSpan prefix) -> std::optional<TokenId> { return prefix.size() % 3 == 0 ? 'a' : 'b'; };
  ChatSession session = f.session();
  must(session.send("Hi", greedy(5)));
  must(session.continue_answer(greedy(5)));
  const TempDir dir;
  ASSERT_TRUE(session.save(dir.file("s.json")).ok());
  const auto loaded = ChatSession::load(f.engine, dir.file("s.json"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->ids(), session.ids());
  EXPECT_FALSE(loaded->load_warnings().any());
}

}  // namespace
}  // namespace ibid
