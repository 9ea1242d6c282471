// A full context: the default error, and what the policies drop or cut.
#include "runtime/session/context_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::ElementsAre;

Json message(const char* role, std::string text) { return {{"role", role}, {"content", std::move(text)}}; }

// Counts ten bytes as one token.
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

TEST(ContextPolicyTest, TurnsBeginWithUserMessages) {
  EXPECT_THAT(turn_begins(five_turns()), ElementsAre(1, 3, 5, 7, 9));
  Json two = Json::array({message("user", "a"), message("user", "b"), message("assistant", "c"), message("user", "d")});
  EXPECT_THAT(turn_begins(two), ElementsAre(0, 3));
}

TEST(ContextPolicyTest, NoMoreOldTurnsAreDroppedThanNecessary) {
  // The conversation has 100 tokens, the context 90: at most 54 may stay.
  const Result<FittedMessages> fitted =
      fit_messages(WhenFull::kDropOldestTurns, five_turns(), {}, {.max_tokens = 90}, count_bytes);
  ASSERT_TRUE(fitted.ok()) << fitted.status().to_string();
  EXPECT_EQ(fitted->left_out.n_messages, 6u);
  EXPECT_EQ(fitted->messages.size(), 4u);
  EXPECT_EQ(fitted->messages[0]["role"], "system");
  EXPECT_EQ(fitted->first_changed, 1u);
}

TEST(ContextPolicyTest, FewestTurnsAreDroppedIfTheFillTargetCannotBeReached) {
  Json messages = five_turns();
  messages.back()["content"] = std::string(500, 'q');  // 60 tokens with the system message, and 20 per turn
  const auto n_left_out = [&](const ContextLimits& room) -> size_t {
    const Result<FittedMessages> fitted = fit_messages(WhenFull::kDropOldestTurns, messages, {}, room, count_bytes);
    EXPECT_TRUE(fitted.ok()) << fitted.status().to_string();
    return fitted.ok() ? fitted->left_out.n_messages : SIZE_MAX;
  };
  EXPECT_EQ(n_left_out({.max_tokens = 100}), 8u) << "60 of 100 is the target, reached by dropping all old turns";
  EXPECT_EQ(n_left_out({.max_tokens = 99, .n_answer = 1}), 6u) << "above it, as many stay as fit beside the answer";
  EXPECT_EQ(n_left_out({.max_tokens = 81, .n_answer = 1}), 6u);
  EXPECT_EQ(n_left_out({.max_tokens = 80, .n_answer = 1}), 8u);
  EXPECT_EQ(n_left_out({.max_tokens = 99}), 6u) << "19 tokens for the answer: half of the available ones";
  EXPECT_EQ(n_left_out({.max_tokens = 60}), 8u) << "an exact fit is accepted";
}

TEST(ContextPolicyTest, PinnedMessageKeepsItsWholeTurn) {
  // Pins the answer of the first turn, and the question of the fourth.
  const Json messages = five_turns();
  const Result<FittedMessages> fitted =
      fit_messages(WhenFull::kDropOldestTurns, messages, {2, 7}, {.max_tokens = 90}, count_bytes);
  ASSERT_TRUE(fitted.ok());
  EXPECT_THAT(fitted->pinned, ElementsAre(2, 3));
  ASSERT_EQ(fitted->messages.size(), 6u);
  const std::vector<size_t> kept = {0, 1, 2, 7, 8, 9};
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(fitted->messages[i], messages[kept[i]]) << i;
  EXPECT_EQ(fitted->first_changed, 3u);
  EXPECT_EQ(fitted->left_out.n_messages, 4u);
}

TEST(ContextPolicyTest, DropErrorReportsNeededAndAvailableTokens) {
  const Result<FittedMessages> fitted =
      fit_messages(WhenFull::kDropOldestTurns, five_turns(), {}, {.max_tokens = 19}, count_bytes);
  EXPECT_EQ(fitted.status().code(), ErrorCode::kContextFull);
  EXPECT_EQ(fitted.status().message(),
            "even without all removable turns the conversation has 20 tokens, the context has room for 19; shorten the "
            "message, or make room with rewind_to() or reset()");
}

TEST(ContextPolicyTest, CutErrorReportsNeededAndAvailableTokens) {
  const Result<FittedMessages> fitted =
      fit_messages(WhenFull::kCutNewestMessage, five_turns(), {}, {.max_tokens = 12}, count_bytes);
  EXPECT_EQ(fitted.status().code(), ErrorCode::kContextFull);
  EXPECT_EQ(
      fitted.status().message(),
      "even with an empty newest message the conversation has 13 tokens, the context has room for 12; shorten the "
      "message, or make room with rewind_to() or reset()");
}

TEST(ContextPolicyTest, LongestTextsAreCutIfOldMessagesFillTheContext) {
  Json messages = five_turns();
  messages[3]["content"] = std::string(900, 'l');
  messages.back()["content"] = "and now?";
  const Result<FittedMessages> fitted =
      fit_messages(WhenFull::kCutNewestMessage, messages, {5}, {.max_tokens = 165}, count_bytes);
  ASSERT_TRUE(fitted.ok()) << fitted.status().to_string();
  EXPECT_LE(*count_bytes(fitted->messages, 0), 99u) << "60 per cent";
  EXPECT_GE(*count_bytes(fitted->messages, 0), 95u);
  ASSERT_EQ(fitted->messages.size(), messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(fitted->messages[i] == messages[i], i != 3) << i << ": the others are shorter than the cut text";
  }
  EXPECT_EQ(fitted->first_changed, 3u);
  EXPECT_EQ(fitted->left_out.n_messages, 0u);
  EXPECT_GT(fitted->left_out.n_bytes, 700u);
  EXPECT_THAT(fitted->pinned, ElementsAre(5));
}

TEST(ContextPolicyTest, PinnedAndSystemMessagesAreNotCut) {
  Json messages = five_turns();
  for (const size_t i : {1u, 2u}) messages[i]["content"] = std::string(400, 'l');
  const Result<FittedMessages> fitted =
      fit_messages(WhenFull::kCutNewestMessage, messages, {1}, {.max_tokens = 140}, count_bytes);
  ASSERT_TRUE(fitted.ok()) << fitted.status().to_string();
  EXPECT_EQ(fitted->messages[0], messages[0]);
  EXPECT_EQ(fitted->messages[1], messages[1]);
  EXPECT_NE(fitted->messages[2], messages[2]);
}

TEST(ContextPolicyTest, ShortMessagesAreNotCutAndOldTurnsAreDroppedInstead) {
  Json messages = Json::array();
  for (int i = 0; i < 50; ++i) {
    messages.push_back(message("user", std::string(20, 'u')));
    messages.push_back(message("assistant", std::string(20, 'a')));
  }
  messages.push_back(message("user", "short"));
  const Result<FittedMessages> dropped =
      fit_messages(WhenFull::kCutNewestMessage, messages, {}, {.max_tokens = 190}, count_bytes);
  ASSERT_TRUE(dropped.ok()) << dropped.status().to_string();
  EXPECT_GT(dropped->left_out.n_messages, 0u);
  EXPECT_EQ(dropped->left_out.n_bytes, 0u);
  EXPECT_LE(*count_bytes(dropped->messages, 0), 114u);
  // If the remaining text is still too long, it is cut as well.
  messages.back()["content"] = std::string(5000, 'q');
  const Result<FittedMessages> both =
      fit_messages(WhenFull::kCutNewestMessage, messages, {}, {.max_tokens = 190}, count_bytes);
  ASSERT_TRUE(both.ok()) << both.status().to_string();
  EXPECT_EQ(both->left_out.n_messages, 100u);
  EXPECT_GT(both->left_out.n_bytes, 3000u);
  EXPECT_LE(*count_bytes(both->messages, 0), 190u - 47u);
}

TEST(ContextPolicyTest, CutsAreAtCharacterBoundaries) {
  Json messages = Json::array();
  std::string text;
  for (int i = 0; i < 300; ++i) text += "\xc3\xa4";
  messages.push_back(message("user", text));
  const Result<FittedMessages> fitted =
      fit_messages(WhenFull::kCutNewestMessage, messages, {}, {.max_tokens = 50, .n_answer = 10}, count_bytes);
  ASSERT_TRUE(fitted.ok());
  const std::string cut = fitted->messages[0]["content"].get<std::string>();
  EXPECT_TRUE(utf8_is_valid(cut));
  EXPECT_LE(cut.size(), 409u);
  EXPECT_GE(cut.size(), 390u);
  EXPECT_GT(fitted->left_out.n_bytes, 0u);
  EXPECT_THAT(cut, testing::HasSubstr("bytes left out"));
}

TEST(ContextPolicyTest, LongMessageIsCutToLeaveSpaceForTheAnswer) {
  Json messages = five_turns();
  messages.back()["content"] = std::string(3000, 'q');  // after 90 tokens
  for (const size_t n_answer : {size_t{1}, size_t{8}, SIZE_MAX}) {
    for (const size_t max_tokens : {155u, 160u, 200u, 380u}) {
      const Result<FittedMessages> fitted = fit_messages(WhenFull::kCutNewestMessage, messages, {},
                                                         {.max_tokens = max_tokens, .n_answer = n_answer}, count_bytes);
      ASSERT_TRUE(fitted.ok()) << fitted.status().to_string();
      const size_t n = *count_bytes(fitted->messages, 0);
      const size_t left = max_tokens - 93;  // beside the other messages and the remark about the cut
      const size_t answer = std::min({n_answer, max_tokens / 4, left / 2 + 1});
      EXPECT_LE(n, max_tokens);
      EXPECT_GE(n + answer + 1, max_tokens) << max_tokens << ", answer " << n_answer;
    }
  }
}

// --- in a session

struct SmallContext : ChatFixture {
  SmallContext() : ChatFixture(kChatMl, {.max_seq_len = 300, .max_chunk = 32}) {}
};

TEST(ContextPolicyTest, SessionDropsOldTurnsAndReportsTheirNumber) {
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
  EXPECT_EQ(chat.state().messages().size() + n_dropped, 51u);
  EXPECT_EQ(chat.state().messages()[0]["role"], "system");
}

TEST(ContextPolicyTest, FailedTurnRestoresDroppedTurns) {
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

TEST(ContextPolicyTest, SessionCutsLongMessageIfThePolicyIsToCut) {
  SmallContext f;
  ChatSession chat = f.session({.when_full = WhenFull::kCutNewestMessage});
  const Turn turn = must(chat.send(std::string(1000, 'q'), greedy(8)));
  EXPECT_GT(turn.left_out.n_bytes, 700u);
  EXPECT_LE(turn.usage.n_prompt, 292u);
  EXPECT_GE(turn.usage.n_prompt, 290u) << "all but the answer's share";
  expect_replays(chat);
}

TEST(ContextPolicyTest, MessageThatFitsAloneAlsoFitsAfterTurnsThatCanBeDropped) {
  SmallContext f;
  const std::string question(220, 'q');  // more than kFilledAfterwards
  must(f.session({.when_full = WhenFull::kDropOldestTurns}).send(question, greedy(8)));
  ChatSession chat = f.session({.when_full = WhenFull::kDropOldestTurns});
  must(chat.send(std::string(60, 'h'), greedy(8)));
  const Turn turn = must(chat.send(question, greedy(8)));
  EXPECT_EQ(turn.left_out.n_messages, 2u);
  expect_replays(chat);

  ChatSession cuts = f.session({.when_full = WhenFull::kCutNewestMessage});
  must(cuts.send(std::string(180, 'h'), greedy(8)));  // more than kFilledAfterwards by itself
  const Turn cut = must(cuts.send(std::string(150, 'q'), greedy(8)));
  EXPECT_EQ(cut.left_out.n_messages, 0u);
  EXPECT_GT(cut.left_out.n_bytes, 150u) << "of both messages";
  EXPECT_LE(cut.usage.n_prompt, 180u);
  EXPECT_GE(cut.usage.n_prompt, 170u);
  expect_replays(cuts);
}

// Long messages and answers to the end of the context, short messages, many turns: each gets an answer.
TEST(ContextPolicyTest, EveryMessageAfterACutGetsAnAnswer) {
  for (const size_t context : {150u, 300u, 700u}) {
    for (const bool answers_to_the_end : {false, true}) {
      ChatFixture f(kChatMl, {.max_seq_len = context, .max_chunk = 32});
      f.model->script = [](TokenSpan) { return std::optional<TokenId>('a'); };
      ChatSession chat = f.session({.system = "be the best", .when_full = WhenFull::kCutNewestMessage});
      const TurnOptions options = greedy(answers_to_the_end ? 0 : 30);
      size_t n_cut = 0;
      for (int i = 0; i < 40; ++i) {
        const std::string text = i % 7 == 0 ? std::string(2 * context, 'q') : "short " + std::to_string(i);
        const Turn turn = must(chat.send(text, options));
        ASSERT_FALSE(HasFailure()) << "context " << context << ", turn " << i;
        n_cut += turn.left_out.any();
        EXPECT_GE(turn.usage.n_decoded, std::min<size_t>(30, context / 16));
        EXPECT_LE(turn.usage.n_prompt, context);
        if (!answers_to_the_end && i % 7 == 3) {
          EXPECT_FALSE(turn.left_out.any()) << "room was made for several turns";
        }
      }
      EXPECT_GT(n_cut, 0u);
      expect_replays(chat);
      EXPECT_EQ(chat.state().messages()[0]["content"], "be the best");
    }
  }
}

TEST(ContextPolicyTest, PolicyCanChangeBetweenTurns) {
  SmallContext f;
  ChatSession chat = f.session();
  Status status;
  for (int i = 0; status.ok(); ++i) status = chat.send("Question " + std::to_string(i), greedy(8)).status();
  ASSERT_EQ(status.code(), ErrorCode::kContextFull);
  EXPECT_THAT(status.message(), testing::AllOf(testing::HasSubstr("room for 300"), testing::HasSubstr("rewind_to()"),
                                               testing::HasSubstr("set_when_full()")));
  EXPECT_EQ(chat.when_full(), WhenFull::kError);
  ASSERT_TRUE(chat.set_when_full(WhenFull::kDropOldestTurns).ok());
  EXPECT_EQ(chat.when_full(), WhenFull::kDropOldestTurns);
  const Turn turn = must(chat.send("Another", greedy(8), [&](const TurnEvent& event) {
    if (event.kind == TurnEvent::Kind::kText) {
      EXPECT_EQ(chat.set_when_full(WhenFull::kError).code(), ErrorCode::kBusy);
    }
  }));
  EXPECT_TRUE(turn.left_out.any());
  expect_replays(chat);
  EXPECT_EQ(chat.set_when_full(static_cast<WhenFull>(3)).code(), ErrorCode::kInvalidArgument);

  const TempDir dir;
  ASSERT_TRUE(chat.save(dir.file("talk")).ok());
  const Result<ChatSession> loaded = ChatSession::load(f.engine, dir.file("talk"));
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->when_full(), WhenFull::kDropOldestTurns);
}

TEST(ContextPolicyTest, PinnedQuestionKeepsRolesAlternating) {
  const char* strict =
      "{% for message in messages %}"
      "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}"
      "{% endif %}"
      "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
      "{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  ChatFixture f(strict, {.max_seq_len = 300, .max_chunk = 32});
  ChatSession chat = f.session({.when_full = WhenFull::kDropOldestTurns});
  must(chat.send("My name is Ada.", greedy(4)));
  ASSERT_TRUE(chat.pin(0).ok());
  size_t n_left_out = 0;
  for (int i = 0; i < 20; ++i) {
    n_left_out += must(chat.send("Number " + std::to_string(i), greedy(4))).left_out.n_messages;
    ASSERT_FALSE(HasFailure()) << i;
  }
  EXPECT_GT(n_left_out, 8u);
  EXPECT_EQ(chat.state().messages()[0]["content"], "My name is Ada.");
}

}  // namespace
}  // namespace ibid
