// Conversations on a model with recurrent layers. Their states cannot be cut, so a turn resumes from a checkpointed
// one. These tests count the prefill; FakeModel checks that every pass begins with the right state.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "ibid/turn_stream.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

const std::string kLong(700, 'q');

struct RecurrentChat : ChatFixture {
  explicit RecurrentChat(const char* chat_template = kChatMl, size_t budget = 64u << 20)
      : ChatFixture(chat_template, {.max_seq_len = 32768, .recurrent = true}, budget) {}

  // With idle work, as by default.
  ChatSession session_as_ever(SessionOptions options = {}) {
    Result<ChatSession> created = ChatSession::create(engine, std::move(options));
    EXPECT_TRUE(created.ok()) << created.status().message();
    return *std::move(created);
  }
};

TEST(RecurrentChatTest, GrowingChatPrefillsNothingAgain) {
  RecurrentChat f;
  std::vector<Tokens> replies;
  for (size_t i = 0; i < 100; ++i) replies.push_back(f.tokenizer->sampled({"a", "b", "lo"}));
  f.say(replies);
  ChatSession chat = f.session({.system = "be the best"});
  size_t n_before = 0;  // positions after the previous turn
  for (size_t i = 0; i < 100; ++i) {
    const Turn turn = must(chat.send(i % 7 == 0 ? kLong : "Hello", greedy()));
    ASSERT_EQ(turn.usage.n_cached, n_before) << i;
    ASSERT_EQ(turn.usage.n_reprefilled, 0u) << i;
    ASSERT_FALSE(turn.lost_prefix.has_value()) << i;
    n_before = turn.usage.n_prompt + turn.usage.n_decoded - 1;  // the answer's last token is fed with the next turn
  }
  expect_replays(chat);
}

TEST(RecurrentChatTest, AnswerAndLaterTokensArePrefilledAgainAfterThinkingIsStripped) {
  RecurrentChat f(kStripsThinking);
  std::vector<Tokens> replies(10, f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello"}));
  f.say(replies);
  ChatSession chat = f.session({.system = kLong});
  size_t n_prompt_before = 0;
  for (size_t i = 0; i < 10; ++i) {
    const std::string message = i == 4 ? kLong : "Hello";
    const Turn turn = must(chat.send(message, greedy()));
    // The previous prompt is a prefix of this one; the text after it is rendered anew.
    ASSERT_EQ(turn.usage.n_cached, n_prompt_before) << i;
    n_prompt_before = turn.usage.n_prompt;
  }
  expect_replays(chat);
}

// Prefill ahead keeps the same states as a turn. How far it got in idle time is unknown, but nothing before the answer
// is prefilled again.
TEST(RecurrentChatTest, IdlePrefillIsNotRepeated) {
  for (const char* chat_template : {kChatMl, kStripsThinking}) {
    RecurrentChat f(chat_template);
    std::vector<Tokens> replies(10, f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello"}));
    f.say(replies);
    ChatSession chat = f.session_as_ever({.system = kLong});
    size_t n_prompt_before = 0;
    for (size_t i = 0; i < 10; ++i) {
      const Turn turn = must(chat.send(i == 4 ? kLong : "Hello", greedy()));
      EXPECT_GE(turn.usage.n_cached, n_prompt_before) << i;
      n_prompt_before = turn.usage.n_prompt;
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(must(chat.regenerate(greedy())).usage.n_prefilled, 0u);
    const Turn edited = must(chat.edit(19, "the other", greedy()));
    EXPECT_GE(edited.usage.n_cached + 64, n_prompt_before);
    expect_replays(chat);
  }
}

TEST(RecurrentChatTest, PrefilledQuestionKeepsItsCheckpoints) {
  RecurrentChat f(kStripsThinking);
  std::vector<Tokens> replies(3, f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello"}));
  f.say(replies);
  ChatSession chat = f.session({.system = kLong});
  ASSERT_TRUE(chat.state().append({{"role", "user"}, {"content", std::string(10'000, 'q')}}).ok());
  ASSERT_TRUE(chat.prefill().ok());
  const Turn first = must(chat.answer(greedy()));
  EXPECT_EQ(first.usage.n_prefilled, 0u);
  // The template rewrites the answer, so the prompt's end is no resume point.
  const Turn second = must(chat.send("Hello", greedy()));
  EXPECT_GE(second.usage.n_cached, first.usage.n_prompt);
  // The other checkpoints were kept: before the question, and within it.
  const Turn edited = must(chat.edit(1, std::string(9'000, 'q') + "the other", greedy()));
  EXPECT_GE(edited.usage.n_cached + f.engine->state().state_share().spacing, 9'000u);
  ChatSession other = f.session({.system = kLong});
  EXPECT_GE(must(other.send("the other", greedy())).usage.n_cached, kLong.size());
  expect_replays(chat);
}

// Concurrent readers of a prompt wait for its states, and later ones find them.
TEST(RecurrentChatTest, ConcurrentPrefillsOfAPromptRunOnce) {
  for (const bool same_question : {true, false}) {
    for (const size_t n_system : {700u, 1000u, 1023u, 1024u, 1025u}) {
      SCOPED_TRACE(n_system);
      RecurrentChat f;
      f.say({f.tokenizer->sampled({"a", "b"})});
      const std::string system(n_system, 'z');
      std::vector<ChatSession> chats;
      for (size_t i = 0; i < 4; ++i) chats.push_back(f.session({.system = system}));
      size_t own = 0;
      {
        std::vector<std::unique_ptr<TurnStream>> turns;
        for (size_t i = 0; i < chats.size(); ++i) {
          const std::string question = same_question ? "Hello" : std::string(20, static_cast<char>('b' + i));
          own += f.prompt(question).size() + 3;
          turns.push_back(std::make_unique<TurnStream>(chats[i], question, greedy()));
        }
        for (auto& turn : turns) must(turn->finish());
      }
      const size_t head = f.ids("<|im_start|>system\n" + system + "<|im_end|>\n<|im_start|>user\n").size();
      EXPECT_LE(f.model->take_fed().size(), head + own);
      for (const ChatSession& chat : chats) expect_replays(chat);
    }
  }
}

TEST(RecurrentChatTest, RegeneratePrefillsNothing) {
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

TEST(RecurrentChatTest, EditResumesFromTheLastStateBeforeTheEdit) {
  RecurrentChat f;
  std::vector<Tokens> replies(8, f.tokenizer->sampled({"a", "b"}));
  f.say(replies);
  ChatSession chat = f.session({.system = kLong});
  std::vector<size_t> ends;  // positions after each answer
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

// A long message has few states: the tokens between the last one and the edit are prefilled again, and the turn
// explains it.
TEST(RecurrentChatTest, TurnReportsTokensPrefilledAgainForLackOfAState) {
  RecurrentChat f;
  f.say(std::vector<Tokens>(4, f.tokenizer->sampled({"a", "b"})));
  ChatSession chat = f.session({.system = "be"});
  must(chat.send(std::string(3000, 'q'), greedy()));
  const Turn turn = must(chat.edit(1, std::string(2000, 'q') + "the other", greedy()));
  EXPECT_GT(turn.usage.n_reprefilled, 0u);
  EXPECT_LE(turn.usage.n_reprefilled, f.engine->state().state_share().spacing);
  ASSERT_TRUE(turn.lost_prefix.has_value());
  EXPECT_EQ(turn.lost_prefix->cause, LostCause::kStateGone);
  EXPECT_EQ(turn.lost_prefix->n_tokens, turn.usage.n_reprefilled);
  EXPECT_EQ(turn.lost_prefix->token, turn.usage.n_cached);
  EXPECT_EQ(turn.lost_prefix->message, 1u);
  EXPECT_EQ(turn.lost_prefix->to_string(),
            std::to_string(turn.usage.n_reprefilled) + " cached tokens are prefilled again, from token " +
                std::to_string(turn.usage.n_cached) + " in message 1 on: the recurrent state after them is not stored");
  const Turn next = must(chat.send("Hello", greedy()));
  EXPECT_FALSE(next.lost_prefix.has_value());
  expect_replays(chat);
}

// The only state near the end of the prompt is after its last token, which must be computed for its logits: the turn
// resumes before the answer before. That is a missing state, not a missing window.
TEST(RecurrentChatTest, TurnThatNeedsLogitsDoesNotResumeAtTheStateAfterItsPrompt) {
  RecurrentChat f;
  f.say(std::vector<Tokens>(3, f.tokenizer->sampled({"a", "b"})));
  ChatSession chat = f.session({.system = "be"});
  const std::string question(300, 'q');
  Json history = Json::array({{{"role", "system"}, {"content", "be"}}});
  for (size_t i = 0; i < 3; ++i) {
    history.push_back({{"role", "user"}, {"content", question}});
    if (i < 2) history.push_back({{"role", "assistant"}, {"content", kLong}});
  }
  ASSERT_TRUE(chat.state().set_history(history).ok());
  must(chat.answer(greedy()));
  const Turn turn = must(chat.edit(3, question, greedy()));
  EXPECT_EQ(turn.usage.n_cached + turn.usage.n_reprefilled, turn.usage.n_prompt - 1);
  EXPECT_GT(turn.usage.n_reprefilled, 0u);
  ASSERT_TRUE(turn.lost_prefix.has_value());
  EXPECT_EQ(turn.lost_prefix->cause, LostCause::kStateGone) << turn.lost_prefix->to_string();
  EXPECT_EQ(turn.lost_prefix->n_tokens, turn.usage.n_reprefilled);
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
  EXPECT_GE(b.usage.n_cached, a.usage.n_cached) << "including the template's text before the message";
  EXPECT_EQ(a.usage.n_reprefilled + b.usage.n_reprefilled, 0u);
  const std::vector<Turn> turns = *chat.send_for_answers("x", 3, greedy());
  EXPECT_EQ(turns[1].usage.n_prefilled + turns[2].usage.n_prefilled, 0u);
  expect_replays(chat);
  expect_replays(fork);
}

TEST(RecurrentChatTest, OtherSessionsResumeAtTheDeepestSharedState) {
  RecurrentChat f;
  std::vector<Tokens> replies(4, f.tokenizer->sampled({"ab"}));
  f.say(replies);
  ChatSession first = f.session({.system = kLong});
  must(first.send("Hello " + kLong, greedy()));
  const Turn second = must(first.send("Hello", greedy()));
  // The system message is shared, the user message is not.
  ChatSession other = f.session({.system = kLong});
  const Turn turn = must(other.send("the other", greedy()));
  EXPECT_EQ(turn.usage.n_cached, f.ids("<|im_start|>system\n" + kLong + "<|im_end|>\n<|im_start|>user\n").size());
  // The whole history, as a client without a session sends it.
  ChatSession same = f.session();
  Json history = first.state().messages();
  history.push_back({{"role", "user"}, {"content", "x"}});
  ASSERT_TRUE(same.state().set_history(history).ok());
  const Turn third = must(same.answer(greedy()));
  EXPECT_GE(third.usage.n_cached, second.usage.n_prompt);
  expect_replays(other);
  expect_replays(same);
}

TEST(RecurrentChatTest, FailedTurnKeepsCachedStates) {
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

// The tokens of the stop string were decoded in separate passes: the answer's end is several passes back.
TEST(RecurrentChatTest, StopStringOfSeveralTokensPrefillsOnlyItsTokensAgain) {
  RecurrentChat f;
  const Tokens rest = f.tokenizer->sampled({"ab", "the", "ing", "lo"});
  f.say({joined({f.tokenizer->sampled({"lo"}), rest}), joined({f.tokenizer->sampled({"a", "b"}), rest}),
         f.tokenizer->sampled({"a"})});
  ChatSession chat = f.session({.system = kLong});
  TurnOptions options = greedy();
  options.stop_strings = {"abtheing"};
  size_t end = 0;  // positions known after the answer
  for (const char* message : {"Hello", "the other", "x"}) {
    const Turn turn = must(chat.send(message, options));
    if (end > 0) {
      EXPECT_EQ(turn.usage.n_cached, end) << message;
      EXPECT_EQ(turn.usage.n_reprefilled, 0u) << message;
    }
    expect_replays(chat);
    end = chat.state().kv().length();
    EXPECT_GT(end, turn.usage.n_prompt) << "more than the prompt is kept";
  }
}

// After prefilling an unknown history, edits of its answers resume close before them.
TEST(RecurrentChatTest, PrefilledHistoryHasStatesAtItsAnswers) {
  RecurrentChat f;
  f.say(std::vector<Tokens>(30, f.tokenizer->sampled({"a", "b"})));
  Json history = Json::array({{{"role", "system"}, {"content", kLong}}});
  for (size_t i = 0; i < 12; ++i) {
    history.push_back({{"role", "user"}, {"content", "Question " + std::string(20, static_cast<char>('a' + i))}});
    history.push_back({{"role", "assistant"}, {"content", std::string(150, static_cast<char>('a' + i))}});
  }
  history.push_back({{"role", "user"}, {"content", "x"}});
  const auto n_ids_before = [&](size_t message) {  // up to the first difference
    std::string text;
    for (size_t i = 0; i < message; ++i) {
      text += "<|im_start|>" + history[i]["role"].get<std::string>() + "\n" + history[i]["content"].get<std::string>() +
              "<|im_end|>\n";
    }
    return f.ids(text).size();
  };
  ChatSession cold = f.session();
  ASSERT_TRUE(cold.state().set_history(history).ok());
  must(cold.answer(greedy()));
  for (const size_t message : {23u, 22u, 21u, 15u, 12u, 11u, 5u, 4u}) {
    ChatSession chat = f.session();
    Json other = history;
    other[message]["content"] = "another";
    ASSERT_TRUE(chat.state().set_history(other).ok());
    const Turn turn = must(chat.answer(greedy()));
    // Less the template's own text, and before an answer the user message.
    EXPECT_GE(turn.usage.n_cached + (message % 2 == 1 ? 16 : 64), n_ids_before(message)) << message;
    expect_replays(chat);
  }
}

// Spare snapshots and the previous conversation are evicted for a turn that would not fit otherwise.
TEST(RecurrentChatTest, EveryTurnFitsIntoTheMinimumBudget) {
  const KvLayout layout = FakeModel({.recurrent = true}).kv_layout();
  for (const char* chat_template : {kChatMl, kStripsThinking}) {
    RecurrentChat f(chat_template, 15 * layout.page_bytes() + 3 * layout.state_bytes());
    std::vector<Tokens> replies(6, f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello"}));
    f.say(replies);
    ChatSession chat = f.session({.system = kLong.substr(0, 100)});
    for (const size_t n : {100, 1, 300, 70, 1}) {
      const Result<Turn> turn = chat.send(kLong.substr(0, n), greedy());
      ASSERT_TRUE(turn.ok()) << n << ": " << turn.status().to_string();
      expect_rows_replay(chat);
    }
    ASSERT_GT(chat.ids().size(), 8 * kPagePositions);
    ASSERT_LE(KvLayout::pages_for(chat.ids().size()), 15u);
  }
}

TEST(RecurrentChatTest, StatesTakeAtMostHalfTheBudget) {
  RecurrentChat f(kChatMl, 600'000);
  std::mt19937 random(1);
  std::vector<Tokens> replies(60, f.tokenizer->sampled({"a", "b", "lo"}));
  f.say(replies);
  std::vector<ChatSession> chats;
  for (size_t i = 0; i < 4; ++i) chats.push_back(f.session({.system = kLong}));
  for (size_t i = 0; i < 200; ++i) {
    ChatSession& chat = chats[random() % chats.size()];
    if (chat.state().messages().size() > 14) {
      ASSERT_TRUE(chat.reset().ok());
    }
    const Result<Turn> turn = chat.send(std::string(1 + random() % 300, 'q'), greedy());
    ASSERT_TRUE(turn.ok()) << i << ": " << turn.status().to_string();
    ASSERT_LE(f.engine->state().store().state_bytes(), f.engine->state().pool().budget_bytes() / 2);
    ASSERT_EQ(validate_store(f.engine->state().store().snapshot()), std::vector<std::string>());
  }
  for (const ChatSession& chat : chats) expect_rows_replay(chat);
}

}  // namespace
}  // namespace ibid
