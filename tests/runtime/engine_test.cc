#include "runtime/engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

TEST(EngineTest, TheDefaultBudgetIsTwoContextsWithinReason) {
  constexpr size_t kMega = 1'000'000;
  // 1 MB pages: 8192 positions are 128 pages.
  EXPECT_EQ(default_kv_budget_bytes(10 * kMega, 8192, 100'000 * kMega), 2 * 128 * 10 * kMega);
  EXPECT_EQ(default_kv_budget_bytes(kMega / 10, 8192, 100'000 * kMega), 256 * kMega) << "at least";
  EXPECT_EQ(default_kv_budget_bytes(10 * kMega, 8192, 1000 * kMega), 500 * kMega) << "at most half";
  EXPECT_EQ(default_kv_budget_bytes(kMega, 8192, 0), kMega) << "one page, or nothing could run at all";
}

TEST(EngineTest, ATokenizerThatIsLargerThanItsModelIsRefused) {
  EngineParts parts;
  parts.model = std::make_unique<FakeModel>(FakeModel::Options{.vocab_size = 100});
  parts.tokenizer = std::make_unique<FakeTokenizer>();
  parts.name = "small";
  const Result<std::shared_ptr<Engine>> engine = Engine::create(std::move(parts));
  EXPECT_EQ(engine.status().code(), ErrorCode::kMismatch);
  EXPECT_NE(engine.status().message().find("small"), std::string::npos);
}

TEST(EngineTest, AFileThatIsNotThereIsAnErrorThatNamesIt) {
  const Result<std::shared_ptr<Engine>> engine = Engine::load("/nowhere/model.gguf");
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.status().message().find("/nowhere/model.gguf"), std::string::npos);
}

TEST(EngineTest, SessionsKeepTheirEngine) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.say({f.tokenizer->sampled({"ab"})});
  f.engine.reset();
  EXPECT_EQ(must(chat.send("x", greedy())).text, "ab");
}

}  // namespace
}  // namespace ibid
