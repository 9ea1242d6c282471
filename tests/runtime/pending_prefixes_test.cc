// A prefix that several sessions need at the same time is computed once.
#include "runtime/scheduler/pending_prefixes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

using Earlier = PendingPrefixes::Earlier;

Tokens counted(size_t n, TokenId first = 0) {
  Tokens ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(first + static_cast<TokenId>(i));
  return ids;
}

TEST(PendingPrefixesTest, PrefillWithoutEarlierCommonPrefixDoesNotWait) {
  PendingPrefixes pending;
  const Tokens ids = counted(300), other = counted(300, 5);
  PendingPrefixes::PendingPrefill first(pending, "a", ids);
  PendingPrefixes::PendingPrefill stranger(pending, "b", ids);
  PendingPrefixes::PendingPrefill different(pending, "a", other);
  EXPECT_EQ(stranger.earlier_state(0), Earlier::kNothing);
  EXPECT_EQ(different.earlier_state(0), Earlier::kNothing);
  EXPECT_EQ(first.earlier_state(0), Earlier::kNothing) << "an earlier one does not wait for a later one";
  PendingPrefixes::PendingPrefill second(pending, "a", ids);
  EXPECT_EQ(second.earlier_state(200), Earlier::kNothing)
      << "less than a page is missing: 256 of 300 are in whole pages";
}

TEST(PendingPrefixesTest, PrefillWaitsUntilTheCommonPrefixIsPublished) {
  PendingPrefixes pending;
  const Tokens ids = counted(300), fewer = counted(200);
  PendingPrefixes::PendingPrefill first(pending, "a", ids);
  PendingPrefixes::PendingPrefill second(pending, "a", fewer);
  EXPECT_EQ(second.earlier_state(0), Earlier::kPrefilling);
  first.published(128);
  EXPECT_EQ(second.earlier_state(0), Earlier::kPrefilling);
  const uint64_t before = pending.n_changes();
  first.published(192);
  EXPECT_NE(pending.n_changes(), before) << "a new search finds more";
  EXPECT_EQ(second.earlier_state(0), Earlier::kPublished);
  EXPECT_EQ(second.earlier_state(192), Earlier::kNothing);
}

TEST(PendingPrefixesTest, WaitingPrefillWaitsForAnotherPrefillWhenTheFirstEnds) {
  PendingPrefixes pending;
  const Tokens ids = counted(300), fewer = counted(200);
  auto first = std::make_unique<PendingPrefixes::PendingPrefill>(pending, "a", ids);
  PendingPrefixes::PendingPrefill second(pending, "a", ids);
  PendingPrefixes::PendingPrefill third(pending, "a", fewer);
  EXPECT_EQ(second.earlier_state(0), Earlier::kPrefilling);
  EXPECT_EQ(third.earlier_state(0), Earlier::kPrefilling);
  const uint64_t before = pending.n_changes();
  first.reset();
  EXPECT_NE(pending.n_changes(), before);
  EXPECT_EQ(second.earlier_state(0), Earlier::kOver);
  EXPECT_EQ(second.earlier_state(0), Earlier::kNothing) << "it prefills itself";
  EXPECT_EQ(third.earlier_state(0), Earlier::kOver);
  EXPECT_EQ(third.earlier_state(0), Earlier::kPrefilling) << "the second one";
}

// With unit 1 (recurrent states), prefills wait for exact lengths, and is_awaited() reports these.
TEST(PendingPrefixesTest, PrefillOfRecurrentModelsWaitsForTheExactLength) {
  PendingPrefixes pending(1);
  const Tokens ids = counted(300), fewer = counted(201);
  PendingPrefixes::PendingPrefill first(pending, "a", ids);
  PendingPrefixes::PendingPrefill second(pending, "a", fewer);
  EXPECT_FALSE(first.is_awaited(0, 1000));
  EXPECT_EQ(second.earlier_state(0), Earlier::kPrefilling);
  EXPECT_TRUE(first.is_awaited(201, 202));
  EXPECT_FALSE(first.is_awaited(202, 1000));
  EXPECT_FALSE(first.is_awaited(0, 201));
  first.published(200);
  EXPECT_EQ(second.earlier_state(0), Earlier::kPrefilling);
  first.published(201);
  EXPECT_EQ(second.earlier_state(0), Earlier::kPublished);
  EXPECT_FALSE(first.is_awaited(0, 1000));
}

// Fifty sessions with one system message, eight at a time.
TEST(PendingPrefixesTest, SharedSystemMessageIsComputedAndStoredOnce) {
  ChatFixture f(kChatMl, {.max_seq_len = 8192, .max_chunk = 512});
  f.say({f.tokenizer->sampled({"ab"})});
  const std::string system(3000, 'z');
  std::vector<ChatSession> sessions;
  for (int i = 0; i < 50; ++i) sessions.push_back(f.session({.system = system}));
  std::vector<std::jthread> threads;
  std::atomic<size_t> next{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < sessions.size(); i = next++)
        must(sessions[i].send("Q" + std::to_string(i), greedy()));
    });
  }
  threads.clear();
  const size_t head = f.ids("<|im_start|>system\n" + system + "<|im_end|>\n<|im_start|>user\n").size();
  const size_t shared_pages = head / kPagePositions;
  // All but the shared system message, whose last, partial page each session prefills or copies for itself.
  size_t own = 0;
  for (size_t i = 0; i < sessions.size(); ++i) own += f.prompt("Q" + std::to_string(i)).size() + 2 + kPagePositions;
  EXPECT_LE(f.model->take_fed().size(), head + own);
  // Each session has the shared pages, the page in which the system message ends, and at most two more.
  const size_t pages = f.engine->state().pool().pages_in_use();
  EXPECT_LE(pages, shared_pages + sessions.size() * 3);
  for (const ChatSession& session : sessions) {
    EXPECT_EQ(session.state().kv().pages()[0].data(), sessions[0].state().kv().pages()[0].data());
    expect_replays(session);
  }
}

// The first one is cancelled before it has computed a token: only the next in line prefills.
TEST(PendingPrefixesTest, OnlyOneWaitingSessionPrefillsWhenTheFirstIsCancelled) {
  ChatFixture f(kChatMl, {.max_seq_len = 8192, .max_chunk = 64});
  f.say({f.tokenizer->sampled({"ab"})});
  const std::string system(1500, 'z');
  std::vector<ChatSession> sessions;
  for (int i = 0; i < 6; ++i) sessions.push_back(f.session({.system = system}));
  std::atomic<bool> inside{false}, go{false};
  f.model->before_layer = [&](size_t call, size_t) {
    inside = true;
    while (call == 0 && !go) std::this_thread::yield();
    // Lets all others check whether the first one published anything.
    if (call == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return Status();
  };
  std::stop_source source;
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    TurnOptions options = greedy();
    options.stop = source.get_token();
    EXPECT_EQ(sessions[0].send("Q", options).status().code(), ErrorCode::kCancelled);
  });
  while (!inside) std::this_thread::yield();
  for (size_t i = 1; i < sessions.size(); ++i) {
    threads.emplace_back([&, i] { must(sessions[i].send("Q" + std::to_string(i), greedy())); });
  }
  // Waiting is not observable, so give them time.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  source.request_stop();
  go = true;
  threads.clear();
  f.model->before_layer = nullptr;
  EXPECT_LE(f.model->take_fed().size(), system.size() + sessions.size() * 2 * kPagePositions);
  for (const ChatSession& session : sessions) expect_replays(session);
}

}  // namespace
}  // namespace ibid
