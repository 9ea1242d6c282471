// A full context: the error by default, and what the policies leave out.
#include "runtime/context_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

using testing::ElementsAre;

Json message(const char* role, std::string text) { return {{"role", role}, {"content", std::move(text)}}; }

// Ten bytes a token.
Result<size_t> count_bytes(const Json& messages, size_t) {
  size_t n = 0;
  for (const Json& m : messages) n += m["content"].get<std::string>().size();
  return n / 10;
}

Json five_turns() {
  Json messages = Json::array();
  messages.push_back(message("system", std::string(100, 's')));
  for (int i = 0; i < 4; ++i) {
    messages.push_back(message("user", std::string(100, 'u')));
    messages.push_back(message("assistant", std::string(100, 'a')));
  }
  messages.push_back(message("user", std::string(100, 'q')));
  return messages;
}

TEST(ContextPolicyTest, TurnsBeginWithWhatTheUserSays) {
  EXPECT_THAT(turn_begins(five_turns()), ElementsAre(1, 3, 5, 7, 9));
  Json two = Json::array({message("user", "a"), message("user", "b"), message("assistant", "c"), message("user", "d")});
  EXPECT_THAT(turn_begins(two), ElementsAre(0, 3));
}

TEST(ContextPolicyTest, TheFewestOldestTurnsGo) {
  // 100 tokens of 90 that there is room for: 54 may stay.
  const Result<FittedMessages> fitted =
      fit_messages(WhenFull::kDropOldestTurns, five_turns(), {}, 90, count_bytes);
  ASSERT_TRUE(fitted.ok()) << fitted.status().to_string();
  EXPECT_EQ(fitted->left_out.n_messages, 6u);
  EXPECT_EQ(fitted->messages.size(), 4u);
  EXPECT_EQ(fitted->messages[0]["role"], "system");
  EXPECT_EQ(fitted->first_changed, 1u);
}

TEST(ContextPolicyTest, PinnedMessagesStay) {
  const Result<FittedMessages> fitted =
      fit_messages(WhenFull::kDropOldestTurns, five_turns(), {2, 8}, 90, count_bytes);
  ASSERT_TRUE(fitted.ok());
  EXPECT_THAT(fitted->pinned, ElementsAre(1, 2 + 1));
  EXPECT_EQ(fitted->messages[1], five_turns()[2]);
}

TEST(ContextPolicyTest, WhatCannotFitSaysBothNumbers) {
  const Result<FittedMessages> fitted = fit_messages(WhenFull::kDropOldestTurns, five_turns(), {}, 20, count_bytes);
  EXPECT_EQ(fitted.status().code(), ErrorCode::kContextFull);
  EXPECT_THAT(fitted.status().message(), testing::AllOf(testing::HasSubstr("20"), testing::HasSubstr("tokens")));
}

TEST(ContextPolicyTest, TheMiddleIsCutAtCharacters) {
  Json messages = Json::array();
  std::string text;
  for (int i = 0; i < 300; ++i) text += "\xc3\xa4";
  messages.push_back(message("user", text));
  const Result<FittedMessages> fitted = fit_messages(WhenFull::kCutNewestMessage, messages, {}, 50, count_bytes);
  ASSERT_TRUE(fitted.ok());
  const std::string cut = fitted->messages[0]["content"].get<std::string>();
  EXPECT_TRUE(utf8_is_valid(cut));
  EXPECT_LE(cut.size(), 309u);
  EXPECT_GE(cut.size(), 290u);
  EXPECT_GT(fitted->left_out.n_bytes, 0u);
  EXPECT_THAT(cut, testing::HasSubstr("bytes left out"));
}

// --- in a session

struct SmallContext : ChatFixture {
  SmallContext() : ChatFixture(kChatMl, {.max_seq_len = 300, .max_chunk = 32}) {}
};

TEST(ContextPolicyTest, ASessionDropsOldTurnsAndSaysSo) {
  SmallContext f;
  ChatSession chat = f.session({.system = "be the best", .when_full = WhenFull::kDropOldestTurns});
  const TurnOptions options = greedy(8);
  size_t n_dropped = 0, n_told = 0;
  for (int i = 0; i < 25; ++i) {
    const Turn turn = must(chat.send("Question " + std::to_string(i), options, [&](const TurnEvent& e) {
      if (e.kind == TurnEvent::Kind::kLeftOut) n_told += e.turn->left_out.n_messages;
    }));
    n_dropped += turn.left_out.n_messages;
    EXPECT_LE(turn.usage.n_prompt, turn.left_out.any() ? 180u : 300u);
    expect_replays(chat);
  }
  EXPECT_GT(n_dropped, 0u);
  EXPECT_EQ(n_told, n_dropped);
  EXPECT_EQ(chat.messages().size() + n_dropped, 51u);
  EXPECT_EQ(chat.messages()[0]["role"], "system");
}

TEST(ContextPolicyTest, ATurnThatFailsBringsTheDroppedOnesBack) {
  SmallContext f;
  ChatSession chat = f.session({.system = "be the best", .when_full = WhenFull::kDropOldestTurns});
  for (int i = 0; chat.ids().size() < 250; ++i) must(chat.send("Question " + std::to_string(i), greedy(8)));
  const SessionSnapshot before(chat);
  const std::string question(60, 'q');
  f.model->before_layer = [](size_t, size_t) { return Status(ErrorCode::kOutOfMemory, "injected"); };
  EXPECT_EQ(chat.send(question, greedy(8)).status().code(), ErrorCode::kOutOfMemory);
  f.model->before_layer = nullptr;
  EXPECT_EQ(SessionSnapshot(chat), before);
  EXPECT_EQ(chat.send(std::string(400, 'q'), greedy(8)).status().code(), ErrorCode::kContextFull);
  EXPECT_EQ(SessionSnapshot(chat), before);
  EXPECT_TRUE(must(chat.send(question, greedy(8))).left_out.any());
  expect_replays(chat);
}

TEST(ContextPolicyTest, ALongMessageIsCutWhereThatIsWanted) {
  SmallContext f;
  ChatSession chat = f.session({.when_full = WhenFull::kCutNewestMessage});
  const Turn turn = must(chat.send(std::string(1000, 'q'), greedy(8)));
  EXPECT_GT(turn.left_out.n_bytes, 700u);
  EXPECT_LE(turn.usage.n_prompt, 180u);
  EXPECT_GE(turn.usage.n_prompt, 170u);
  expect_replays(chat);
}

}  // namespace
}  // namespace ibid
