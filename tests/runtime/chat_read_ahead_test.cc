// Prefill ahead of a turn: by prefill(), and in idle time if the template rewrites earlier messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

const std::string kReadFirst = "be " + std::string(150, 'z');

TEST(ChatReadAheadTest, PrefillComputesSystemMessageBeforeFirstTurn) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"ab"})});
  ChatSession chat = f.session({.system = kReadFirst});
  const Result<Usage> read = chat.prefill();
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  const Tokens head = f.ids("<|im_start|>system\n" + kReadFirst + "<|im_end|>\n<|im_start|>user\n");
  EXPECT_EQ(f.model->take_fed(), head);
  EXPECT_EQ(read->n_prefilled, head.size());
  const Turn turn = must(chat.send("Hello", greedy()));
  EXPECT_EQ(turn.usage.n_cached, head.size());
  EXPECT_EQ(turn.usage.n_prefilled, f.ids("Hello<|im_end|>\n<|im_start|>assistant\n").size());
  expect_replays(chat);
  EXPECT_EQ(f.session({.system = kReadFirst}).prefill()->n_prefilled, 0u) << "another session finds its KV";
}

TEST(ChatReadAheadTest, PrefilledQuestionIsAnsweredWithoutPrefill) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"ab"})});
  ChatSession chat = f.session();
  ASSERT_TRUE(chat.state().append({{"role", "user"}, {"content", "Hello"}}).ok());
  ASSERT_TRUE(chat.prefill().ok());
  f.model->take_fed();
  const Turn turn = must(chat.answer(greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, 0u);
  EXPECT_EQ(turn.text, "ab");
  EXPECT_EQ(f.model->take_fed(), f.tokenizer->sampled({"ab"}));
  expect_replays(chat);
}

TEST(ChatReadAheadTest, AnswerIsUnchangedAfterAMispredictedPrefill) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"ab"}), f.tokenizer->sampled({"lo"})});
  ChatSession chat = f.session();
  must(chat.send("x", greedy()));
  ASSERT_TRUE(chat.state().append({{"role", "user"}, {"content", "Hello"}}).ok());
  ASSERT_TRUE(chat.prefill().ok());
  ASSERT_TRUE(chat.rewind_to(0).ok());
  const Turn turn = must(chat.send("y", greedy()));
  EXPECT_EQ(turn.text, "ab");
  expect_replays(chat);
}

TEST(ChatReadAheadTest, CancelledPrefillIsResumedByTheNextPrefill) {
  ChatFixture f(kChatMl, {.max_chunk = 32});
  ChatSession chat = f.session({.system = std::string(400, 'z')});
  std::stop_source source;
  f.model->before_layer = [&](size_t call, size_t) {
    if (call == 5) source.request_stop();
    return Status();
  };
  EXPECT_EQ(chat.prefill(source.get_token()).status().code(), ErrorCode::kCancelled);
  f.model->before_layer = nullptr;
  const Result<Usage> read = chat.prefill();
  ASSERT_TRUE(read.ok());
  EXPECT_GE(read->n_cached, 128u);
  EXPECT_EQ(read->n_cached + read->n_prefilled, read->n_prompt);
}

// Waits until the idle work of a session is done; the test's time limit guards against hanging.
void wait_for_pages(const ChatFixture& f, size_t n_fed) {
  while (f.engine->state().scheduler().stats().n_rows < n_fed)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(ChatReadAheadTest, RewrittenHistoryIsPrefilledWhenIdleAndBothBranchesStayCached) {
  ChatFixture f(kStripsThinking);
  const Tokens thinking = f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello", " world"});
  f.say({thinking, f.tokenizer->sampled({"ab"})});
  Result<ChatSession> created = ChatSession::create(f.engine);
  ASSERT_TRUE(created.ok());
  ChatSession chat = *std::move(created);
  must(chat.send("x", greedy()));
  const size_t n_turn = f.prompt("x").size() + thinking.size();
  const Tokens rewritten = f.ids("Hello world<|im_end|>\n<|im_start|>user\n");
  wait_for_pages(f, n_turn + rewritten.size());
  f.model->take_fed();
  const Turn turn = must(chat.send("y", greedy()));
  EXPECT_EQ(f.model->take_fed(), joined({f.ids("y<|im_end|>\n<|im_start|>assistant\n"), f.tokenizer->sampled({"ab"})}))
      << "the history was prefilled before";
  EXPECT_EQ(turn.usage.n_cached, f.prompt("x").size() + rewritten.size());
  expect_replays(chat);
  // The branch with thinking is still cached.
  ASSERT_TRUE(chat.rewind_to(0).ok());
  EXPECT_LE(must(chat.send("x", greedy())).usage.n_prefilled, 1u);
}

TEST(ChatReadAheadTest, IdlePrefillAfterSeveralAnswersIsForTheFirstAnswer) {
  ChatFixture f(kStripsThinking);
  const Tokens thinking = f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello", " world"});
  f.say({thinking, f.tokenizer->sampled({"ab"})});
  ChatSession chat = *ChatSession::create(f.engine);
  TurnOptions options = greedy();
  options.speculate = false;
  ASSERT_TRUE(chat.send_for_answers("x", 2, options).ok());
  wait_for_pages(
      f, f.prompt("x").size() + 2 * thinking.size() + f.ids("Hello world<|im_end|>\n<|im_start|>user\n").size());
  const Turn turn = must(chat.send("y", greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, f.ids("y<|im_end|>\n<|im_start|>assistant\n").size());
  expect_replays(chat);
}

TEST(ChatReadAheadTest, SaveDoesNotEndIdleWork) {
  ChatFixture f(kStripsThinking);
  const Tokens thinking = f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello", " world"});
  f.say({thinking, f.tokenizer->sampled({"ab"})});
  ChatSession chat = *ChatSession::create(f.engine);
  const size_t n_turn = f.prompt("x").size() + thinking.size();
  std::atomic<bool> go{false};
  f.model->before_layer = [&](size_t, size_t) {
    while (f.engine->state().scheduler().stats().n_rows >= n_turn && !go) std::this_thread::yield();
    return Status();
  };
  must(chat.send("x", greedy()));
  const TempDir directory;
  ASSERT_TRUE(chat.save(directory.file("talk")).ok());
  go = true;
  wait_for_pages(f, n_turn + f.ids("Hello world<|im_end|>\n<|im_start|>user\n").size());
  const Turn turn = must(chat.send("y", greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, f.ids("y<|im_end|>\n<|im_start|>assistant\n").size());
  expect_replays(chat);
}

TEST(ChatReadAheadTest, UnchangedHistoryCausesNoIdleWork) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"ab"})});
  Result<ChatSession> chat = ChatSession::create(f.engine);
  must(chat->send("x", greedy()));
  const size_t n_calls = f.model->n_calls();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(f.model->n_calls(), n_calls);
}

TEST(ChatReadAheadTest, CallEndsIdleWorkWithinALayer) {
  ChatFixture f(kStripsThinking);
  f.say({f.tokenizer->sampled({"<think>", "ing", "</think>", "Hello"}), f.tokenizer->sampled({"ab"})});
  Result<ChatSession> chat = ChatSession::create(f.engine);
  const size_t n_first = f.prompt("x").size() + 4;
  std::atomic<bool> idle{false}, answered{false};
  f.model->before_layer = [&](size_t, size_t) {
    if (!answered || f.engine->state().scheduler().stats().n_rows < n_first) return Status();
    idle = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return Status();
  };
  must(chat->send("x", greedy(), [&](const TurnEvent& e) { answered = e.kind == TurnEvent::Kind::kFinish; }));
  while (!idle) std::this_thread::yield();
  must(chat->send("y", greedy()));
  expect_replays(*chat);
}

}  // namespace
}  // namespace ibid
