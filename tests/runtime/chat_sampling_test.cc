// Sessions with penalties: the sampled tokens depend only on the tokens before them, not on how the session got there,
// and a turn costs only its new tokens.
#include <gtest/gtest.h>

#include <random>

#include "runtime/session/running_turn.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/runtime/generating.h"

namespace ibid {
namespace {

TurnOptions penalised(uint64_t seed, size_t max_tokens = 30) {
  TurnOptions options;
  options.sampler = {.temperature = 1,
                     .min_p = 0,
                     .seed = seed,
                     .repetition_penalty = 1.3,
                     .frequency_penalty = 0.5,
                     .presence_penalty = 0.5,
                     .dry_multiplier = 0.8,
                     .dry_allowed_length = 1};
  options.max_tokens = max_tokens;
  return options;
}

// Prefers few tokens, so that penalties have an effect.
struct Repetitive : ChatFixture {
  Repetitive() {
    model->change_logits = [](TokenSpan, std::span<float> row) {
      for (TokenId id = 'a'; id < 'h'; ++id) row[static_cast<size_t>(id)] += 9;
    };
  }
};

void must(const Status& status) { EXPECT_TRUE(status.ok()) << status.to_string(); }

// The reference answer, without a session: a new sampler that receives every token.
std::string cold_answer(Repetitive& f, const TurnOptions& options, const Tokens& prompt) {
  KvCacheEntry entry(f.engine->state().pool());
  Sampler sampler = *make_turn_sampler(options, *f.tokenizer);
  TokenHistory history;
  history.append(prompt);
  sampler.begin_answer(std::move(history));
  GenerateRequest request{.prompt = prompt, .max_tokens = options.max_tokens, .stop_ids = f.tokenizer->end_of_turn()};
  const auto out = run_answer(f.engine->state().scheduler(), *f.tokenizer, entry, std::move(request),
                              std::move(sampler), StopDetector(), f.engine->state().clock())
                       .result;
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  return out.ok() ? out->text : "";
}

TEST(ChatSamplingTest, PenaltiesCountPromptAndEarlierAnswers) {
  Repetitive f;
  ChatSession chat = f.session();
  Tokens prompt;
  bool matters = false;
  for (uint64_t turn = 0; turn < 12; ++turn) {
    const std::string message = "abc" + std::to_string(turn);
    // The session's tokens with this message, from a fork without penalties.
    ChatSession probe = *chat.fork();
    must(probe.send(message, greedy(1)));
    Tokens ids = probe.ids();
    ids.pop_back();  // the sampled one
    const TurnOptions options = penalised(turn);
    const std::string wanted = cold_answer(f, options, ids);
    const TurnOptions without{.sampler = {.temperature = 1, .min_p = 0, .seed = turn}, .max_tokens = 30};
    matters |= wanted != cold_answer(f, without, ids);
    EXPECT_EQ(must(chat.send(message, options)).text, wanted) << turn;
    if (turn % 3 == 1) {
      EXPECT_EQ(must(chat.regenerate(options)).text, wanted) << turn;
    }
    if (turn % 5 == 2) must(chat.send("and", greedy()));  // a turn without penalties
    if (turn % 4 == 3) must(chat.rewind_to(chat.state().messages().size() - 2));
    if (turn == 6) chat = *chat.fork();
  }
  EXPECT_TRUE(matters) << "the penalties changed nothing";
}

TEST(ChatSamplingTest, WorkOfATurnDoesNotGrowWithConversation) {
  ChatFixture f;
  f.say(std::vector<Tokens>(41, f.ids("Hello world, the abcd is the world.\n")));
  ChatSession chat = f.session();
  size_t first = 0;
  for (uint64_t turn = 0; turn < 40; ++turn) {
    TurnOptions options = penalised(turn);
    options.sampler.dry_base = 1;  // keeps the penalty small enough for the answer to be repeated
    const Turn done = must(chat.send("the world is", options));
    const Turn again = must(chat.regenerate(options));
    EXPECT_EQ(again.text, "Hello world, the abcd is the world.\n");
    if (turn == 3) first = std::max(done.work.history_steps, again.work.history_steps);
    if (turn < 4) continue;
    EXPECT_LE(done.work.history_steps, first + first / 10) << turn;
    EXPECT_LE(again.work.history_steps, first + first / 10) << turn;
  }
  ChatSession fork = *chat.fork();
  TurnOptions options = penalised(9);
  options.sampler.dry_base = 1;
  EXPECT_LE(must(fork.send("the world is", options)).work.history_steps, first + first / 10)
      << "a fork has the history";
  EXPECT_GT(first, 0u);
  EXPECT_EQ(must(chat.send("x", greedy())).work.history_steps, 0u) << "without penalties no token is counted";
}

TEST(ChatSamplingTest, FailedTurnDoesNotChangePenalties) {
  for (const bool fails : {true, false}) {
    Repetitive f;
    ChatSession chat = f.session();
    must(chat.send("one", penalised(1)));
    if (fails) {
      size_t n_left = 12;
      f.model->before_layer = [&](size_t, size_t) {
        return n_left-- == 0 ? Status(ErrorCode::kOutOfMemory, "injected") : Status();
      };
      EXPECT_FALSE(chat.send("something else", penalised(2)).ok());
      f.model->before_layer = nullptr;
      TurnOptions bad = penalised(3);
      bad.sampler.dry_base = 0;
      EXPECT_EQ(chat.send("x", bad).status().code(), ErrorCode::kInvalidArgument);
      EXPECT_FALSE(chat.send(std::string(9000, 'x'), penalised(4)).ok());
    }
    static std::string without;
    const std::string text = must(chat.send("two", penalised(5))).text;
    if (fails) {
      without = text;
    } else {
      EXPECT_EQ(text, without);
    }
  }
}

TEST(ChatSamplingTest, EachTokenOfTheAnswerHasTheLogprobOfTheModel) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"Hello", " wor", "abc"})});
  f.model->change_logits = [](TokenSpan, std::span<float> row) {
    for (float& logit : row) logit = std::min(logit, 20.0f);
  };
  ChatSession chat = f.session();
  TurnOptions options = greedy();
  EXPECT_TRUE(must(chat.send("x", options)).logprobs.empty());
  options.n_logprobs = 2;
  options.sampler.logit_bias = {{'q', 100}};
  const Turn turn = must(chat.regenerate(options));
  EXPECT_EQ(turn.finish_reason, FinishReason::kLength) << "the bias outweighs the model";
  ASSERT_EQ(turn.logprobs.size(), 24u);
  EXPECT_EQ(turn.logprobs[0].id, 'q');
  EXPECT_LT(turn.logprobs[0].logprob, -5) << "the model's logits are without the bias";
  ASSERT_EQ(turn.logprobs[0].top.size(), 2u);
  EXPECT_EQ(turn.logprobs[0].top[0].id, f.tokenizer->sampled({"Hello"})[0]);
  options.sampler.logit_bias = {};
  options.stop_strings = {"orab"};
  const Turn cut = must(chat.regenerate(options));
  EXPECT_EQ(cut.text, "Hello w");
  EXPECT_EQ(cut.logprobs.size(), 1u) << "of the tokens that stay";
  EXPECT_EQ(cut.logprobs[0].top[0].id, cut.logprobs[0].id);
  options.n_logprobs = 21;
  const Status status = chat.send("x", options).status();
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(status.message().find("n_logprobs: 21"), std::string::npos);
}

TEST(ChatSamplingTest, TokensThatContainADrySequenceBreakerBreakSequences) {
  const FakeTokenizer tokenizer;
  const TokenId next = tokenizer.sampled({"c"})[0];
  std::vector<float> logits(tokenizer.vocab_size(), 0.0f);
  logits[static_cast<size_t>(next)] = 1;
  const auto is_penalised = [&](std::vector<std::string> breakers) {
    TurnOptions options{.sampler = {.temperature = 0, .dry_multiplier = 100}};
    options.dry_sequence_breakers = std::move(breakers);
    Sampler sampler = *make_turn_sampler(options, tokenizer);
    TokenHistory history;
    history.append(tokenizer.sampled({"ab", "lo", "c", "ab", "lo"}));
    sampler.begin_answer(std::move(history));
    return *sampler.sample(logits) != next;
  };
  EXPECT_TRUE(is_penalised({}));
  EXPECT_TRUE(is_penalised({"x", "loc"}));
  EXPECT_FALSE(is_penalised({"x", "o"})) << "at the end of the repetition";
  EXPECT_FALSE(is_penalised({"b"})) << "the rest of the repetition is too short";
  EXPECT_FALSE(is_penalised({"c"})) << "the token that would follow";
  TurnOptions empty;
  empty.dry_sequence_breakers = {"x", ""};
  EXPECT_EQ(make_turn_sampler(empty, tokenizer).status().code(), ErrorCode::kInvalidArgument);
}

TEST(ChatSamplingTest, LogitBiasOutsideVocabularyIsRejected) {
  ChatFixture f;
  ChatSession chat = f.session();
  TurnOptions options = greedy();
  options.sampler.logit_bias = {{static_cast<TokenId>(f.tokenizer->vocab_size()), 1}};
  const Status status = chat.send("x", options).status();
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(status.message().find("logit_bias: token id 276"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace ibid
