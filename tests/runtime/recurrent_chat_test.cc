// Conversations with a model whose layers are recurrent. Their states cannot be cut, so a turn goes on from where one
// was kept. What is read again is counted here; that every pass begins with the right state is checked by FakeModel.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

const std::string kLong(700, 'q');

struct RecurrentChat : ChatFixture {
  explicit RecurrentChat(const char* chat_template = kChatMl, size_t budget = 64u << 20)
      : ChatFixture(chat_template, {.max_seq_len = 32768, .recurrent = true}, budget) {}
};

TEST(RecurrentChatTest, AChatThatGrowsReadsNothingAgain) {
  RecurrentChat f;
  std::vector<Tokens> replies;
  for (size_t i = 0; i < 100; ++i) replies.push_back(f.tokenizer->sampled({"a", "b", "lo"}));
  f.say(replies);
  ChatSession chat = f.session({.system = "be the best"});
  size_t n_before = 0;  // positions behind the turn before
  for (size_t i = 0; i < 100; ++i) {
    const Turn turn = must(chat.send(i % 7 == 0 ? kLong : "Hello", greedy()));
    ASSERT_EQ(turn.usage.n_cached, n_before) << i;
    ASSERT_EQ(turn.usage.n_read_again, 0u) << i;
    ASSERT_FALSE(turn.lost_prefix.has_value()) << i;
    n_before = turn.usage.n_prompt + turn.usage.n_decoded - 1;  // the answer's last id is fed with the next turn
  }
  expect_replays(chat);
}

TEST(RecurrentChatTest, ThinkingThatIsTakenAwayCostsTheAnswerAndWhatFollowsIt) {
  RecurrentChat f(kStripsThinking);
  std::vector<Tokens> replies(10, f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello"}));
  f.say(replies);
  ChatSession chat = f.session({.system = kLong});
  size_t n_prompt_before = 0;
  for (size_t i = 0; i < 10; ++i) {
    const std::string message = i == 4 ? kLong : "Hello";
    const Turn turn = must(chat.send(message, greedy()));
    // The prompt before is a prefix of this one: what the template wrote behind it is new.
    ASSERT_EQ(turn.usage.n_cached, n_prompt_before) << i;
    n_prompt_before = turn.usage.n_prompt;
  }
  expect_replays(chat);
}

TEST(RecurrentChatTest, RegeneratingReadsNothing) {
  RecurrentChat f;
  f.say({f.tokenizer->sampled({"a", "b"}), f.tokenizer->sampled({"lo"})});
  ChatSession chat = f.session({.system = kLong});
  must(chat.send(kLong, greedy()));
  must(chat.send("Hello", greedy()));
  for (size_t i = 0; i < 5; ++i) {
    const Turn turn = must(chat.regenerate(greedy()));
    EXPECT_EQ(turn.usage.n_prefilled, 0u) << i;
  }
  expect_replays(chat);
}

TEST(RecurrentChatTest, AnEditReadsFromTheLastStateInFrontOfIt) {
  RecurrentChat f;
  std::vector<Tokens> replies(8, f.tokenizer->sampled({"a", "b"}));
  f.say(replies);
  ChatSession chat = f.session({.system = kLong});
  std::vector<size_t> ends;  // positions behind each answer
  for (size_t i = 0; i < 8; ++i) {
    const Turn turn = must(chat.send("Hello " + std::string(20 * i, 'x'), greedy()));
    ends.push_back(turn.usage.n_prompt + turn.usage.n_decoded - 1);
  }
  for (size_t i = 7; i > 0; --i) {
    const Turn turn = must(chat.edit(2 * i + 1, "the other", greedy()));
    EXPECT_GE(turn.usage.n_cached, ends[i - 1]) << "message " << 2 * i + 1;
  }
  expect_replays(chat);
}

TEST(RecurrentChatTest, ForksAndSeveralAnswersShareStates) {
  RecurrentChat f;
  std::vector<Tokens> replies(6, f.tokenizer->sampled({"a", "b"}));
  f.say(replies);
  ChatSession chat = f.session({.system = kLong});
  must(chat.send(kLong, greedy()));
  ChatSession fork = *chat.fork();
  const Turn a = must(chat.send("Hello", greedy())), b = must(fork.send("the other", greedy()));
  EXPECT_GE(b.usage.n_cached, a.usage.n_cached) << "and what both write in front of the message";
  EXPECT_EQ(a.usage.n_read_again + b.usage.n_read_again, 0u);
  const std::vector<Turn> turns = *chat.send_for_answers("x", 3, greedy());
  EXPECT_EQ(turns[1].usage.n_prefilled + turns[2].usage.n_prefilled, 0u);
  expect_replays(chat);
  expect_replays(fork);
}

TEST(RecurrentChatTest, AConversationOfAnotherSessionIsFoundAtItsDeepestState) {
  RecurrentChat f;
  std::vector<Tokens> replies(4, f.tokenizer->sampled({"ab"}));
  f.say(replies);
  ChatSession first = f.session({.system = kLong});
  must(first.send("Hello " + kLong, greedy()));
  const Turn second = must(first.send("Hello", greedy()));
  // The system message is shared, what the user says is not.
  ChatSession other = f.session({.system = kLong});
  const Turn turn = must(other.send("the other", greedy()));
  EXPECT_EQ(turn.usage.n_cached, f.ids("<|im_start|>system\n" + kLong + "<|im_end|>\n<|im_start|>user\n").size());
  // The whole history, as a client without a session sends it.
  ChatSession same = f.session();
  Json history = first.messages();
  history.push_back({{"role", "user"}, {"content", "x"}});
  ASSERT_TRUE(same.set_history(history).ok());
  const Turn third = must(same.answer(greedy()));
  EXPECT_GE(third.usage.n_cached, second.usage.n_prompt);
  expect_replays(other);
  expect_replays(same);
}

TEST(RecurrentChatTest, ATurnThatFailsOrIsStoppedLeavesWhatWas) {
  RecurrentChat f;
  std::vector<Tokens> replies(6, f.tokenizer->sampled({"a", "b"}));
  f.say(replies);
  ChatSession chat = f.session({.system = kLong});
  const Turn first = must(chat.send("Hello", greedy()));
  const size_t end = first.usage.n_prompt + first.usage.n_decoded - 1;
  f.model->before_layer = [](size_t, size_t) { return Status(ErrorCode::kOutOfMemory, "injected"); };
  EXPECT_FALSE(chat.send("the other", greedy()).ok());
  f.model->before_layer = nullptr;
  const Turn turn = must(chat.send("Hello", greedy()));
  EXPECT_EQ(turn.usage.n_cached, end);
  expect_replays(chat);
}

// What the stop string took was decoded in passes of its own: the answer's end lies several passes back.
TEST(RecurrentChatTest, AStopStringOfSeveralTokensCostsNothingButThem) {
  RecurrentChat f;
  const Tokens rest = f.tokenizer->sampled({"ab", "the", "ing", "lo"});
  f.say({joined({f.tokenizer->sampled({"lo"}), rest}), joined({f.tokenizer->sampled({"a", "b"}), rest}),
         f.tokenizer->sampled({"a"})});
  ChatSession chat = f.session({.system = kLong});
  TurnOptions options = greedy();
  options.stop_strings = {"abtheing"};
  size_t end = 0;  // of what is known behind the answer
  for (const char* message : {"Hello", "the other", "x"}) {
    const Turn turn = must(chat.send(message, options));
    if (end > 0) {
      EXPECT_EQ(turn.usage.n_cached, end) << message;
      EXPECT_EQ(turn.usage.n_read_again, 0u) << message;
    }
    expect_replays(chat);
    end = chat.kv().length();
    EXPECT_GT(end, turn.usage.n_prompt) << "more than the prompt is kept";
  }
}

TEST(RecurrentChatTest, StatesTakeAtMostHalfOfTheBudget) {
  RecurrentChat f(kChatMl, 600'000);
  std::mt19937 random(1);
  std::vector<Tokens> replies(60, f.tokenizer->sampled({"a", "b", "lo"}));
  f.say(replies);
  std::vector<ChatSession> chats;
  for (size_t i = 0; i < 4; ++i) chats.push_back(f.session({.system = kLong}));
  for (size_t i = 0; i < 200; ++i) {
    ChatSession& chat = chats[random() % chats.size()];
    if (chat.messages().size() > 14) {
      ASSERT_TRUE(chat.reset().ok());
    }
    const Result<Turn> turn = chat.send(std::string(1 + random() % 300, 'q'), greedy());
    ASSERT_TRUE(turn.ok()) << i << ": " << turn.status().to_string();
    ASSERT_LE(f.engine->store().state_bytes(), f.engine->pool().budget_bytes() / 2);
    ASSERT_EQ(validate_store(f.engine->store().snapshot()), std::vector<std::string>());
  }
  for (const ChatSession& chat : chats) expect_rows_replay(chat);
}

}  // namespace
}  // namespace ibid
