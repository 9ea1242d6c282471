// Session features for request handlers: changing variables, history differences, prompts without a template, pulled
// progress, and answers that end when memory runs out.
#include <gtest/gtest.h>

#include "ibid/turn_stream.h"
#include "runtime/prompt/plain_prompt.h"
#include "runtime/session/prefill_stream.h"
#include "templates/message.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

constexpr const char* kMood =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}{% if mood %}{{ mood }}{% endif %}";

TEST(RequestSessionTest, SetVariablesKeepsTheCommonPrefixOfThePrompt) {
  ChatFixture f(kMood);
  f.say({f.tokenizer->sampled({"a", "b"}), f.tokenizer->sampled({"c"})});
  ChatSession chat = f.session();
  must(chat.send("x", greedy()));
  ASSERT_TRUE(chat.state().set_variables(Json{{"mood", "the"}}).ok());
  const Turn turn = must(chat.send("y", greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, f.next_prompt("y").size() + 2) << "the mood, and the token that ended the answer";
  EXPECT_FALSE(turn.lost_prefix.has_value());
  expect_replays(chat);

  // The same tokens as in another session with the same calls.
  ChatFixture g(kMood);
  g.say({g.tokenizer->sampled({"a", "b"}), g.tokenizer->sampled({"c"})});
  ChatSession other = g.session();
  must(other.send("x", greedy()));
  ASSERT_TRUE(other.state().set_variables(Json{{"mood", "the"}}).ok());
  must(other.send("y", greedy()));
  EXPECT_EQ(chat.ids(), other.ids());
}

TEST(RequestSessionTest, SettingEqualVariablesRendersNothingAgain) {
  ChatFixture f(kMood), g(kMood);
  ChatSession chat = f.session({}, Json{{"mood", "the"}});
  ChatSession lone = g.session({}, Json{{"mood", "the"}});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(chat.state().set_variables(Json{{"mood", "the"}}).ok());
    const Turn turn = must(chat.send("x", greedy(4))), expected = must(lone.send("x", greedy(4)));
    EXPECT_EQ(turn.work.messages_rendered, expected.work.messages_rendered);
    EXPECT_EQ(turn.work.bytes_compared, expected.work.bytes_compared);
  }
}

TEST(RequestSessionTest, InvalidVariablesChangeNothing) {
  ChatFixture f(kMood);
  ChatSession chat = f.session();
  EXPECT_EQ(chat.state().set_variables(Json::array()).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(chat.state().set_variables(Json{{"mood", "\xff"}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(must(chat.send("x", greedy(4))).usage.n_prompt, f.prompt("x").size());
}

TEST(RequestSessionTest, ReplaceFromHasTheSameEffectAsSetHistory) {
  ChatFixture f, g;
  for (ChatFixture* each : {&f, &g}) each->say({each->tokenizer->sampled({"a", "b"})});
  ChatSession by_difference = f.session(), as_a_whole = g.session();
  must(by_difference.send("x", greedy()));
  must(as_a_whole.send("x", greedy()));
  Json history = as_a_whole.state().messages();
  history.push_back(make_message(Role::kUser, "y"));
  ASSERT_TRUE(as_a_whole.state().set_history(history).ok());
  ASSERT_TRUE(by_difference.state().replace_from(2, Json::array({make_message(Role::kUser, "y")})).ok());
  EXPECT_EQ(by_difference.state().messages(), history);
  EXPECT_EQ(must(by_difference.answer(greedy(4))).text, must(as_a_whole.answer(greedy(4))).text);
  EXPECT_EQ(by_difference.ids(), as_a_whole.ids());

  const SessionSnapshot before(by_difference);
  EXPECT_EQ(by_difference.state().replace_from(9, Json::array()).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(by_difference.state().replace_from(0, Json()).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(by_difference.state().replace_from(1, Json::array({1})).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(before.same_conversation(SessionSnapshot(by_difference)));
}

TEST(RequestSessionTest, SessionWithoutTemplateContinuesItsText) {
  ChatFixture f(nullptr);
  f.model->script = [&](TokenSpan prefix) -> std::optional<TokenId> {
    const Tokens answer = f.tokenizer->sampled({"H", "e", "l", "lo"});
    return prefix.size() < 2 ? 0 : prefix.size() - 2 < answer.size() ? answer[prefix.size() - 2] : f.tokenizer->im_end;
  };
  ChatSession text = f.session({}, Json::object(), true);
  ASSERT_TRUE(text.state().append(plain_message("<|im_start|>the")).ok());
  EXPECT_EQ(must(text.answer(greedy())).text, "Hello");
  // The text continues after the answer, whose sampled tokens stay.
  ASSERT_TRUE(text.state().replace_from(0, Json::array({plain_message("<|im_start|>theHello and on")})).ok());
  const Turn turn = must(text.answer(greedy(4)));
  EXPECT_EQ(turn.usage.n_prefilled, f.ids(" and on").size());
  expect_replays(text);
  EXPECT_EQ(text.save("/nowhere").code(), ErrorCode::kUnsupported);
}

TEST(RequestSessionTest, GivenTokensArePrefilledUnchanged) {
  ChatFixture f(nullptr);
  const Tokens given = f.tokenizer->sampled({"a", "b", "c", "Hello"});  // tokenizing their text gives others
  ChatSession chat = f.session({}, Json::object(), true);
  ASSERT_TRUE(chat.state().append(plain_message(given)).ok());
  must(chat.answer(greedy(4)));
  const Tokens first = chat.ids();
  ASSERT_TRUE(std::equal(given.begin(), given.end(), first.begin()));
  Tokens more = first;
  more.push_back(f.tokenizer->sampled({"x"})[0]);
  ASSERT_TRUE(chat.state().replace_from(0, Json::array({plain_message(more)})).ok());
  EXPECT_EQ(must(chat.answer(greedy(4))).usage.n_prefilled, 2u);
  expect_replays(chat);
  ASSERT_TRUE(chat.state().replace_from(0, Json::array({plain_message(Tokens{300'000})})).ok());
  EXPECT_EQ(chat.answer(greedy(4)).status().code(), ErrorCode::kInvalidArgument);
}

TEST(RequestSessionTest, AnswerEndedByOutOfMemoryKeepsItsText) {
  const size_t page = ChatFixture().engine->state().pool().layout().page_bytes();
  ChatFixture f(kChatMl, {}, 2 * page);
  ChatSession chat = f.session();
  TurnOptions options = greedy(1000);
  options.min_tokens = 1000;
  EXPECT_EQ(chat.send("x", options).status().code(), ErrorCode::kOutOfMemory);
  EXPECT_TRUE(chat.state().messages().empty());
  options.keep_when_out_of_memory = true;
  const Turn turn = must(chat.send("x", options));
  EXPECT_EQ(turn.finish_reason, FinishReason::kLength);
  EXPECT_EQ(turn.usage.n_prompt + turn.usage.n_decoded, 2 * kPagePositions + 1) << "the last token was not fed";
  EXPECT_EQ(chat.state().messages().back()["content"], turn.text);
  expect_replays(chat);
}

TEST(RequestSessionTest, StreamEmitsPrefillProgressAndText) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"Hello"})});
  ChatSession chat = f.session();
  const auto waker = std::make_shared<Waker>();
  TurnStream stream = TurnStream(chat, TurnStart::answer(), greedy(), waker);
  EXPECT_EQ(stream.begun(), nullptr) << "nothing awaits an answer";
  EXPECT_EQ(stream.finish().status().code(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(chat.state().append(make_message(Role::kUser, std::string(100, 'x'))).ok());
  TurnStream begun = TurnStream(chat, TurnStart::answer(), greedy(), waker);
  ASSERT_NE(begun.begun(), nullptr);
  const size_t n_prompt = begun.begun()->usage.n_prompt;
  size_t n_done = 0;
  std::string text;
  while (!begun.is_over()) {
    while (const auto event = begun.poll_event()) {
      if (event->kind == TurnEvent::Kind::kText) {
        EXPECT_EQ(n_done, n_prompt) << "the prompt is prefilled before any text";
        text += event->text;
      } else {
        EXPECT_GT(event->n_done, n_done);
        n_done = event->n_done;
      }
    }
    waker->wait_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(must(begun.finish()).text, text);
}

TEST(RequestSessionTest, EventsBeforeTheFirstPullAreKept) {
  for (const bool wants_events : {true, false}) {
    ChatFixture f;
    f.say({f.tokenizer->sampled({"Hello"})});
    ChatSession chat = f.session();
    const auto waker = std::make_shared<Waker>();
    TurnStream stream(chat, std::string(100, 'x'), greedy(), waker);
    while (stream.begun() != nullptr) {
      EXPECT_FALSE(stream.is_over()) << "there are events to pull";
      waker->wait_for(std::chrono::milliseconds(1));
    }
    EXPECT_FALSE(stream.is_over());
    if (wants_events) {
      EXPECT_EQ(stream.poll_event()->kind, TurnEvent::Kind::kPrefill);
      while (stream.poll_event()) continue;
    } else {
      EXPECT_EQ(stream.poll(), "Hello");
    }
    EXPECT_TRUE(stream.is_over());
    EXPECT_EQ(must(stream.finish()).text, "Hello");
  }
}

// Whether text comes in parts is known at the first pull only.
TEST(RequestSessionTest, FirstPullDecidesWhetherEarlierTextComesInParts) {
  for (const bool wants_events : {true, false}) {
    ChatFixture f;
    f.say({f.tokenizer->sampled({"Hello", " wor", "lo"})});
    ChatSession chat = f.session();
    const auto waker = std::make_shared<Waker>();
    TurnOptions options = greedy();
    options.parse_reply = true;
    TurnStream stream(chat, "x", options, waker);
    for (int i = 0; i < 50; ++i) {
      EXPECT_FALSE(stream.is_over()) << "there are events to pull";
      waker->wait_for(std::chrono::milliseconds(1));
    }
    std::string content;
    while (!stream.is_over()) {
      if (!wants_events) {
        while (const auto piece = stream.poll()) content += *piece;
      }
      while (const auto event = wants_events ? stream.poll_event() : std::nullopt) {
        EXPECT_NE(event->kind, TurnEvent::Kind::kText);
        if (event->kind == TurnEvent::Kind::kContent) content += event->text;
      }
      waker->wait_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(content, "Hello worlo");
    EXPECT_EQ(must(stream.finish()).content, content);
  }
}

TEST(RequestSessionTest, PrefillStreamPrefillsThePrompt) {
  ChatFixture f;
  ChatSession chat = f.session();
  ASSERT_TRUE(chat.state().append(make_message(Role::kUser, "x")).ok());
  const auto waker = std::make_shared<Waker>();
  PrefillStream reading(chat, Priority::kNormal, {}, waker);
  ASSERT_NE(reading.begun(), nullptr);
  EXPECT_EQ(reading.begun()->n_prompt, f.prompt("x").size());
  EXPECT_EQ(chat.state().append(make_message(Role::kUser, "y")).code(), ErrorCode::kBusy);
  while (!reading.is_over()) waker->wait();
  EXPECT_EQ(reading.finish().value().n_prefilled, f.prompt("x").size());
  EXPECT_EQ(must(chat.answer(greedy(4))).usage.n_prefilled, 0u);
  { const PrefillStream dropped(chat, Priority::kNormal, {}, waker); }
  EXPECT_TRUE(chat.state().append(make_message(Role::kUser, "y")).ok()) << "the session is free again";
}

TEST(WakerTest, WaitForReturnsAtItsTimeLimit) {
  Waker waker;
  waker.wait_for(std::chrono::milliseconds(1));
  waker.ring();
  waker.wait_for(std::chrono::hours(1));
  waker.wake_softly();
  waker.wait_for(std::chrono::hours(1));
}

}  // namespace
}  // namespace ibid
