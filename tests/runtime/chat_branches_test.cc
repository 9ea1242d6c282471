// Branches of a conversation: edits, other histories, forks and several answers. They feed only changed text, and their
// KV is that of a cold pass over their tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

const std::string kLong(200, 'q');

// Two turns: "Hello <kLong>" -> "ab", "the second" -> "lo".
struct TwoTurns : ChatFixture {
  TwoTurns() : chat(session({.system = "be the best"})) {
    say({tokenizer->sampled({"a", "b"}), tokenizer->sampled({"lo"}), tokenizer->sampled({"ing"})});
    must(chat.send("Hello " + kLong, greedy()));
    must(chat.send("the second", greedy()));
    model->take_fed();
  }
  ChatSession chat;
};

TEST(ChatBranchesTest, EditPrefillsOnlyChangedText) {
  TwoTurns f;
  const Turn turn = must(f.chat.edit(3, "the third", greedy()));
  EXPECT_EQ(turn.text, "lo");
  EXPECT_EQ(f.chat.state().messages().size(), 5u);
  EXPECT_EQ(f.chat.state().messages()[3]["content"], "the third");
  // Both texts begin with "the ".
  const Tokens fed = f.model->take_fed();
  EXPECT_EQ(turn.usage.n_prefilled + 1, fed.size());
  EXPECT_LE(turn.usage.n_prefilled, f.ids("the third<|im_end|>\n<|im_start|>assistant\n").size());
  EXPECT_FALSE(turn.lost_prefix.has_value()) << "no message that stays was lost";
  expect_replays(f.chat);
}

TEST(ChatBranchesTest, EditOfFirstMessageDropsLaterMessages) {
  TwoTurns f;
  must(f.chat.edit(1, "Hello " + kLong + " again", greedy()));
  EXPECT_EQ(f.chat.state().messages().size(), 3u);
  EXPECT_LE(f.model->take_fed().size(), 40u) << "the long text is not prefilled again";
  expect_replays(f.chat);
}

TEST(ChatBranchesTest, FailedEditChangesNothing) {
  TwoTurns f;
  const SessionSnapshot before(f.chat);
  EXPECT_EQ(f.chat.edit(2, "an answer", greedy()).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.chat.edit(9, "nothing", greedy()).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.chat.edit(1, "\xff", greedy()).status().code(), ErrorCode::kInvalidArgument);
  f.model->before_layer = [](size_t, size_t) { return Status(ErrorCode::kOutOfMemory, "injected"); };
  EXPECT_EQ(f.chat.edit(1, "another", greedy()).status().code(), ErrorCode::kOutOfMemory);
  f.model->before_layer = nullptr;
  EXPECT_EQ(SessionSnapshot(f.chat), before);
  EXPECT_EQ(must(f.chat.send("x", greedy())).text, "ing");
  expect_replays(f.chat);
}

TEST(ChatBranchesTest, SetHistoryReusesCommonPrefix) {
  TwoTurns f;
  Json history = f.chat.state().messages();
  history.erase(history.begin() + 3, history.end());
  history.push_back({{"role", "user"}, {"content", "something else"}});
  ASSERT_TRUE(f.chat.state().set_history(history).ok());
  const Turn turn = must(f.chat.answer(greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, f.ids("something else<|im_end|>\n<|im_start|>assistant\n").size());
  expect_replays(f.chat);
}

TEST(ChatBranchesTest, SetHistoryKeepsSampledTokensOfAnswers) {
  TwoTurns f;
  // "ab" was sampled as "a", "b"; tokenized it is one token.
  Json history = f.chat.state().messages();
  history.push_back({{"role", "user"}, {"content", "x"}});
  ASSERT_TRUE(f.chat.state().set_history(history).ok());
  const Turn turn = must(f.chat.answer(greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, f.next_prompt("x").size() + 1) << "and the token that ended the answer before";
  EXPECT_FALSE(turn.lost_prefix.has_value());
  expect_replays(f.chat);
}

TEST(ChatBranchesTest, ChangedHistoryReportsLostPrefix) {
  TwoTurns f;
  Json history = f.chat.state().messages();
  history[1]["content"] = "Hello  " + kLong;
  history.push_back({{"role", "user"}, {"content", "x"}});
  ASSERT_TRUE(f.chat.state().set_history(history).ok());
  const Turn turn = must(f.chat.answer(greedy()));
  ASSERT_TRUE(turn.lost_prefix.has_value());
  EXPECT_EQ(turn.lost_prefix->message, 1u);
  expect_replays(f.chat);
}

TEST(ChatBranchesTest, HistoryWithDifferentlyWrittenNumbersIsRenderedAgain) {
  const char* shows =
      "{% for message in messages %}"
      "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] ~ (message['n'] | tojson) ~ '<|im_end|>\n' }}"
      "{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  const std::vector<Json> numbers = {1,       1.0,  true,       uint64_t{1},          0,
                                     0.0,     -0.0, -1,         UINT64_MAX,           "1",
                                     nullptr, {1},  {{"a", 1}}, {{"a", 1}, {"b", 2}}, {{"b", 2}, {"a", 1}}};
  const auto history = [](const Json& number) {
    Json message = {{"role", "user"}, {"content", "x"}};
    message["n"] = number;
    return Json::array({message});
  };
  ChatFixture f(shows);
  for (const Json& first : numbers) {
    for (const Json& second : numbers) {
      f.say({f.tokenizer->sampled({"ab"}), f.tokenizer->sampled({"lo"})});
      ChatSession warm = f.session(), cold = f.session();
      ASSERT_TRUE(warm.state().set_history(history(first)).ok());
      must(warm.answer(greedy(2)));
      ASSERT_TRUE(warm.state().set_history(history(second)).ok());
      ASSERT_TRUE(cold.state().set_history(history(second)).ok());
      must(warm.answer(greedy(2)));
      must(cold.answer(greedy(2)));
      EXPECT_EQ(warm.state().transcript().bytes(), cold.state().transcript().bytes()) << first << " and " << second;
    }
  }
}

TEST(ChatBranchesTest, SetHistoryReplacesSystemMessage) {
  TwoTurns f;
  ASSERT_TRUE(f.chat.state().set_history({{{"role", "system"}, {"content", "be brief"}}}).ok());
  ASSERT_TRUE(f.chat.reset().ok());
  EXPECT_EQ(f.chat.state().messages(), Json({{{"role", "system"}, {"content", "be brief"}}}));
}

TEST(ChatBranchesTest, InvalidMessagesAreRejected) {
  TwoTurns f;
  const SessionSnapshot before(f.chat);
  for (const Json& bad :
       {Json("text"), Json({{"content", "x"}}), Json({{"role", 7}}), Json({{"role", "user"}, {"content", "\xff"}})}) {
    EXPECT_EQ(f.chat.state().append(bad).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(f.chat.state().set_history({bad}).code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(f.chat.state().set_history("x").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.chat.answer(greedy()).status().code(), ErrorCode::kInvalidArgument) << "the last message is an answer";
  EXPECT_EQ(SessionSnapshot(f.chat), before);
}

TEST(ChatBranchesTest, AppendedMessagesAreAnsweredTogether) {
  TwoTurns f;
  ASSERT_TRUE(f.chat.state().append({{"role", "user"}, {"content", "one"}}).ok());
  ASSERT_TRUE(f.chat.state().append({{"role", "user"}, {"content", "two"}}).ok());
  EXPECT_EQ(f.model->take_fed(), Tokens()) << "appending computes nothing";
  EXPECT_EQ(must(f.chat.answer(greedy())).text, "ing");
  EXPECT_EQ(f.chat.state().messages().size(), 8u);
  expect_replays(f.chat);
}

TEST(ChatBranchesTest, SeveralAnswersPrefillQuestionOnce) {
  ChatFixture f;
  ChatSession chat = f.session();
  const TurnOptions options{
      .sampler = {.temperature = 1.0, .min_p = 0, .seed = 7}, .max_tokens = 12, .speculate = false};
  Result<std::vector<Turn>> turns = chat.send_for_answers("Hello " + kLong, 5, options);
  ASSERT_TRUE(turns.ok()) << turns.status().to_string();
  ASSERT_EQ(turns->size(), 5u);
  size_t n_prefilled = 0, n_decoded = 0;
  std::set<std::string> texts;
  for (const Turn& turn : *turns) {
    n_prefilled += turn.usage.n_prefilled;
    n_decoded += turn.usage.n_decoded - 1;
    texts.insert(turn.text);
  }
  EXPECT_EQ(n_prefilled, f.prompt("Hello " + kLong).size());
  EXPECT_EQ(f.model->take_fed().size(), n_prefilled + n_decoded);
  EXPECT_GT(texts.size(), 1u);
  for (size_t i : {4u, 0u, 2u, 2u}) {
    ASSERT_TRUE(chat.choose(i).ok());
    EXPECT_EQ(chat.state().messages().back()["content"], (*turns)[i].text);
    EXPECT_EQ((*turns)[i].seed, 7 + i);
    expect_replays(chat);
    // The same as a single answer with that seed.
    ChatFixture alone;
    TurnOptions own = options;
    own.sampler.seed = 7 + i;
    EXPECT_EQ(must(alone.session().send("Hello " + kLong, own)).text, (*turns)[i].text);
  }
  EXPECT_EQ(chat.choose(5).code(), ErrorCode::kInvalidArgument);
  must(chat.send("y", greedy()));
  EXPECT_EQ(chat.choose(1).code(), ErrorCode::kInvalidArgument) << "the conversation has changed";
}

TEST(ChatBranchesTest, SeveralAnswersDropTurnsFromFullContext) {
  ChatFixture f(kChatMl, {.max_seq_len = 200});
  f.say(std::vector<Tokens>(8, f.tokenizer->sampled({"ab"})));
  ChatSession chat = f.session({.when_full = WhenFull::kDropOldestTurns});
  for (int i = 0; i < 3; ++i) must(chat.send(std::string(45, 'q'), greedy()));
  const Result<std::vector<Turn>> turns = chat.send_for_answers(std::string(40, 'w'), 2, greedy());
  ASSERT_TRUE(turns.ok()) << turns.status().to_string();
  EXPECT_GT((*turns)[0].left_out.n_messages, 0u);
  ASSERT_TRUE(chat.choose(1).ok());
  expect_replays(chat);
}

TEST(ChatBranchesTest, SeveralAnswersFailAsAWhole) {
  TwoTurns f;
  const SessionSnapshot before(f.chat);
  EXPECT_EQ(f.chat.send_for_answers("x", 0).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.chat.send_for_answers("x", 17).status().code(), ErrorCode::kInvalidArgument);
  const size_t first = f.model->n_calls();
  f.model->before_layer = [&](size_t call, size_t) {
    return call >= first + 1 ? Status(ErrorCode::kOutOfMemory, "injected") : Status();
  };
  EXPECT_EQ(f.chat.send_for_answers("x", 3, greedy()).status().code(), ErrorCode::kOutOfMemory);
  f.model->before_layer = nullptr;
  EXPECT_EQ(SessionSnapshot(f.chat), before);
  must(f.chat.send("x", greedy()));
  expect_replays(f.chat);
}

TEST(ChatBranchesTest, ForksShareComputedKeysAndValues) {
  TwoTurns f;
  const std::string question = "one question " + kLong;
  ChatSession fork = *f.chat.fork();
  must(f.chat.send(question, greedy()));
  EXPECT_EQ(must(fork.send(question, greedy())).usage.n_prefilled, 0u);
  ChatSession other = *fork.fork();
  must(other.send("more " + kLong, greedy()));
  EXPECT_EQ(must(fork.send("more " + kLong, greedy())).usage.n_prefilled, 0u);
  expect_replays(f.chat);
  expect_replays(fork);
  expect_replays(other);
}

TEST(ChatBranchesTest, RepeatedMessageAfterARewindPrefillsNothing) {
  TwoTurns f;
  ASSERT_TRUE(f.chat.rewind_to(3).ok());
  const Turn turn = must(f.chat.send("the second", greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, 0u);
  EXPECT_EQ(turn.text, "lo");
  EXPECT_EQ(f.model->take_fed(), f.tokenizer->sampled({"lo"}));
  expect_replays(f.chat);
}

// All calls of a session, in random order.
TEST(ChatBranchesTest, RandomBranchesGiveTheRowsAndTokensOfAColdPass) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    ChatFixture f(seed % 3 == 0 ? kStripsThinking : seed % 3 == 1 ? kTrims : kChatMl);
    ChatSession chat = f.session({.system = "be the best"});
    const TurnOptions options{.sampler = {.temperature = 1.0, .min_p = 0, .seed = seed}, .max_tokens = 9};
    const auto text = [&] { return std::string("Hello the ").substr(0, 1 + rng() % 9) + std::to_string(rng() % 50); };
    for (int step = 0; step < 14; ++step) {
      const size_t n = chat.state().messages().size();
      switch (rng() % 8) {
        case 0: (void)chat.regenerate(options); break;
        case 1: (void)chat.edit(rng() % n, text(), options); break;
        case 2: (void)chat.rewind_to(1 + rng() % n / 2 * 2); break;
        case 3: {
          ChatSession other = *chat.fork();
          must(other.send(text(), options));
          if (rng() % 2 == 0) std::swap(chat, other);
          break;
        }
        case 4:
          if (chat.send_for_answers(text(), 1 + rng() % 3, options).ok()) (void)chat.choose(rng() % 3);
          break;
        case 5: {
          Result<Usage> read = chat.prefill();
          EXPECT_TRUE(read.ok());
          break;
        }
        default: must(chat.send(text(), options));
      }
      expect_replays(chat);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

}  // namespace
}  // namespace ibid
