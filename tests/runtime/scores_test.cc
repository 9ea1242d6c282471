// Scores of given tokens: the bits of answers in any passes and company, cached prefixes, and rejected input.
#include "ibid/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime/scoring/score_pass.h"
#include "runtime/session/session_state.h"
#include "tests/server/talking_model.h"
#include "tests/support/failing_new.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;

class ScoresTest : public testing::Test {
 protected:
  ScoresTest() { write_talking_model(path_); }

  std::shared_ptr<Engine> load(EngineOptions options = {.n_threads = 1}) const {
    auto engine = Engine::load(path_, options);
    CHECK(engine.ok()) << engine.status().to_string();
    return *std::move(engine);
  }
  static Scored scored(const std::shared_ptr<Engine>& engine, TokenSpan ids, const ScoreOptions& options = {}) {
    auto scores = engine->score(ids, options);
    CHECK(scores.ok()) << scores.status().to_string();
    return *std::move(scores);
  }

  TempDir dir_;
  const std::string path_ = dir_.file("talk.gguf");
};

// The log-probabilities of an answer are those that its tokens get as given ones.
TEST_F(ScoresTest, ScoresOfAnAnswerEqualItsSampledLogprobs) {
  const auto engine = load();
  auto chat = ChatSession::create(engine, {});
  ASSERT_TRUE(chat.ok());
  TurnOptions options{.sampler = {.seed = 3}, .n_logprobs = 4, .max_tokens = 60};
  const auto turn = chat->send("hello", options);
  ASSERT_TRUE(turn.ok()) << turn.status().to_string();
  const Tokens& ids = chat->ids();
  const size_t n_prompt = turn->usage.n_prompt;
  ASSERT_GT(turn->logprobs.size(), 20u);
  const Scored cold = scored(load(), ids, {.first = n_prompt, .n_top = 4});
  const Scored warm = scored(engine, ids, {.first = n_prompt, .n_top = 4});
  for (size_t i = 0; i < turn->logprobs.size(); ++i) {
    EXPECT_EQ(cold.tokens[i], turn->logprobs[i]) << i;
    EXPECT_EQ(warm.tokens[i], turn->logprobs[i]) << i;
  }
}

TEST_F(ScoresTest, ScoresHaveTheSameBitsForAllChunksThreadsAndConcurrentTasks) {
  const Tokens ids = random_tokens(300, 256, 5);
  const Scored wanted = scored(load(), ids, {.n_top = 3});
  ASSERT_EQ(wanted.tokens.size(), ids.size() - 1);
  for (const int n_threads : {1, 2}) {
    for (const size_t max_chunk : {1u, 7u, 64u, 512u}) {
      const auto engine = load({.n_threads = n_threads, .max_chunk = max_chunk});
      std::vector<Scored> company(3);
      {
        std::vector<std::jthread> others;
        for (size_t t = 0; t < company.size(); ++t) {
          others.emplace_back(
              [&, t] { company[t] = scored(engine, TokenSpan(ids).first(100 * (t + 1)), {.n_top = 3}); });
        }
      }
      for (const Scored& one : company) {
        for (size_t i = 0; i < one.tokens.size(); ++i) ASSERT_EQ(one.tokens[i], wanted.tokens[i]) << i;
        ASSERT_TRUE(std::equal(one.ranks.begin(), one.ranks.end(), wanted.ranks.begin()));
      }
    }
  }
}

TEST_F(ScoresTest, ScoresAreLogProbabilitiesWithRanks) {
  const Tokens ids = random_tokens(20, 256, 9);
  const auto engine = load();
  const Scored scores = scored(engine, ids, {.n_top = 20});
  for (size_t i = 0; i < scores.tokens.size(); ++i) {
    const TokenLogprobs& token = scores.tokens[i];
    EXPECT_EQ(token.id, ids[i + 1]);
    ASSERT_EQ(token.top.size(), 20u);
    double sum = 0;
    for (const auto& likely : token.top) sum += std::exp(likely.logprob);
    EXPECT_LE(sum, 1 + 1e-9);
    const size_t rank = scores.ranks[i];
    EXPECT_EQ(rank == 1, token.logprob == token.top.front().logprob);
    if (rank <= 20) {
      EXPECT_DOUBLE_EQ(token.top[rank - 1].logprob, token.logprob);
    }
  }
  EXPECT_TRUE(scored(engine, TokenSpan(ids).first(1)).tokens.empty()) << "nothing precedes the first token";
}

TEST_F(ScoresTest, CachedPrefixCountsUpToTheFirstScoredRow) {
  const auto engine = load();
  const Tokens ids = random_tokens(200, 256, 5);
  const Scored all = scored(engine, ids);
  EXPECT_EQ(all.usage.n_cached, 0u);
  EXPECT_EQ(scored(engine, ids).usage.n_cached, 0u) << "every row is scored";
  for (const size_t first : {0u, 1u, 2u, 65u, 150u, 199u, 200u, 5000u}) {
    const Scored some = scored(engine, ids, {.first = first});
    const size_t begin = std::clamp<size_t>(first, 1, ids.size());
    EXPECT_EQ(some.usage.n_prompt, 200u);
    EXPECT_EQ(some.usage.n_cached, begin - 1) << first;
    ASSERT_EQ(some.tokens.size(), ids.size() - begin) << first;
    for (size_t i = 0; i < some.tokens.size(); ++i) EXPECT_EQ(some.tokens[i], all.tokens[begin - 1 + i]) << first;
  }
  EXPECT_EQ(scored(engine, ids, {.first = 150, .cache_namespace = "other"}).usage.n_cached, 0u);
}

TEST_F(ScoresTest, InvalidRequestsAreRejected) {
  const auto engine = load({.n_threads = 1, .max_seq_len = 100});
  const auto refused = [&](const Tokens& ids, const ScoreOptions& options = {}) {
    return engine->score(ids, options).status();
  };
  EXPECT_EQ(refused({}).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(refused(Tokens(100, 1)).ok());
  const Status full = refused(Tokens(101, 1));
  EXPECT_EQ(full.code(), ErrorCode::kContextFull);
  EXPECT_THAT(full.message(), HasSubstr("101 tokens, the context has room for 100"));
  for (const TokenId id : {-1, 259, 2147483647}) {
    EXPECT_THAT(refused({1, id}).message(), HasSubstr("token id " + std::to_string(id)));
  }
  EXPECT_THAT(refused({1, 2}, {.n_top = 21}).message(), HasSubstr("n_top: 21, allowed: 0 to 20"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(refused({1, 2}, {.stop = stop.get_token()}).code(), ErrorCode::kCancelled);
  write_embedding_model(dir_.file("embed.gguf"));
  const auto embeds = Engine::load(dir_.file("embed.gguf"), {.n_threads = 1});
  EXPECT_EQ((*embeds)->score(Tokens{1, 2}).status().code(), ErrorCode::kUnsupported);
}

// Each failing allocation, also on the compute thread, is an error, and the next call succeeds.
TEST_F(ScoresTest, EveryFailingAllocationIsAnError) {
  const auto engine = load();
  const Tokens ids = random_tokens(70, 256, 5);
  const Scored wanted = scored(engine, ids, {.n_top = 2});
  for (int64_t n = 0;; ++n) {
    FailingNew once(n, false, FailingNew::Threads::kAll);
    const auto scores = engine->score(ids, {.n_top = 2});
    once.stop();
    if (scores.ok()) {
      ASSERT_EQ(scores->tokens, wanted.tokens) << n;
    } else {
      ASSERT_EQ(scores.status().code(), ErrorCode::kOutOfMemory) << n;
    }
    if (!once.has_failed()) break;
    ASSERT_EQ(scored(engine, ids, {.n_top = 2}).tokens, wanted.tokens) << n;
  }
}

}  // namespace
}  // namespace ibid
