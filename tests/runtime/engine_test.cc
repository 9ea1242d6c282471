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

// A model whose pass waits until it is let go.
TEST(ForwardQueueTest, WaitingForTheModelCanBeCancelled) {
  FakeModel model;
  KvPagePool pool(model.kv_layout(), 1u << 20);
  ForwardQueue queue(model);
  std::atomic<bool> inside{false}, go{false};
  model.before_layer = [&](size_t, size_t) {
    inside = true;
    while (!go) std::this_thread::yield();
    return Status();
  };
  const TokenId id = 65;
  KvCacheEntry first(pool), second(pool);
  std::jthread runs([&] {
    Logits logits;
    const SequenceChunk chunk{&first, {&id, 1}, WantLogits::kLast};
    EXPECT_TRUE(queue.forward({&chunk, 1}, {}, logits).ok());
  });
  while (!inside) std::this_thread::yield();
  std::stop_source source;
  ErrorCode code = ErrorCode::kOk;
  std::jthread waits([&] {
    Logits logits;
    const SequenceChunk chunk{&second, {&id, 1}, WantLogits::kLast};
    code = queue.forward({&chunk, 1}, source.get_token(), logits).code();
  });
  source.request_stop();
  waits.join();
  EXPECT_EQ(code, ErrorCode::kCancelled);
  EXPECT_EQ(second.length(), 0u);
  go = true;
  runs.join();
  EXPECT_EQ(first.length(), 1u);
  Logits logits;
  const SequenceChunk chunk{&second, {&id, 1}, WantLogits::kLast};
  EXPECT_TRUE(queue.forward({&chunk, 1}, {}, logits).ok()) << "the line moves on";
}

}  // namespace
}  // namespace ibid
