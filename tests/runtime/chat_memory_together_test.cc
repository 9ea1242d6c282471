// Memory exhaustion with concurrent conversations: the heap fails for one of several, or the page pool is too small.
// The affected call returns kOutOfMemory, and every call can be retried.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "tests/runtime/chat_memory_world.h"
#include "tests/support/failing_new.h"

namespace ibid {
namespace {

// With and without recurrent layers.
class ChatMemoryTogetherTest : public testing::TestWithParam<bool> {
 protected:
  static FakeModel::Options model() { return {.max_chunk = 16, .recurrent = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Layers, ChatMemoryTogetherTest, testing::Bool());

// One allocation fails in one of three conversations that share passes: at most that turn fails, and none hangs.
TEST_P(ChatMemoryTogetherTest, OneFailedAllocationFailsAtMostOneTurn) {
  constexpr size_t kTalks = 3;
  constexpr const char* kQuestions[kTalks] = {"one", "two", "three"};
  std::vector<Tokens> alone;
  for (const char* question : kQuestions) {
    World world(kChatMl, model());
    world.model->script = nullptr;
    ChatSession chat = world.session();
    must(chat.send(question, world.options));
    alone.push_back(chat.ids());
  }
  for (size_t n = 0; n < 4000; n += 23) {
    SCOPED_TRACE(n);
    World world(kChatMl, model());
    world.model->script = nullptr;
    std::vector<ChatSession> chats;
    for (size_t i = 0; i < kTalks; ++i) chats.push_back(world.session());
    std::array<ErrorCode, kTalks> codes{};
    const auto say = [&](size_t i) { codes[i] = chats[i].send(kQuestions[i], world.options).status().code(); };
    size_t n_allocations = 0;
    {
      std::atomic<bool> go{false};
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < kTalks; ++i) {
        threads.emplace_back([&, i] {
          go.wait(false);
          say(i);
        });
      }
      FailingNew failing(n, false, FailingNew::Threads::kAll);
      go = true;
      go.notify_all();
      threads.clear();
      failing.stop();
      n_allocations = failing.allocations();
    }
    EXPECT_LE(std::count_if(codes.begin(), codes.end(), [](ErrorCode code) { return code != ErrorCode::kOk; }), 1);
    for (size_t i = 0; i < kTalks; ++i) {
      if (codes[i] != ErrorCode::kOk) {
        EXPECT_EQ(codes[i], ErrorCode::kOutOfMemory);
        EXPECT_TRUE(chats[i].ids().empty());
        say(i);
      }
      EXPECT_EQ(codes[i], ErrorCode::kOk);
      EXPECT_EQ(chats[i].ids(), alone[i]);
      // A state without memory is one resume position less.
      GetParam() ? expect_rows_replay(chats[i]) : expect_replays(chats[i]);
    }
    if (n_allocations < n) break;
  }
}

// All allocations fail for the compute thread: every turn gets the error and can be retried.
TEST_P(ChatMemoryTogetherTest, ExhaustedHeapFailsTurnsWithoutHanging) {
  for (size_t n = 0; n < 3000; n += 61) {
    SCOPED_TRACE(n);
    World world(kChatMl, model());
    world.model->script = nullptr;
    std::vector<ChatSession> chats;
    for (size_t i = 0; i < 3; ++i) chats.push_back(world.session());
    std::array<ErrorCode, 3> codes{};
    {
      std::atomic<bool> go{false};
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < 3; ++i) {
        threads.emplace_back([&, i] {
          go.wait(false);
          codes[i] = chats[i].send("one", world.options).status().code();
        });
      }
      FailingNew failing(n, true, FailingNew::Threads::kAll);
      go = true;
      go.notify_all();
      threads.clear();
    }
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(codes[i] == ErrorCode::kOk || codes[i] == ErrorCode::kOutOfMemory);
      if (codes[i] == ErrorCode::kOk) continue;
      EXPECT_TRUE(chats[i].ids().empty());
      must(chats[i].send("one", world.options));
    }
    for (const ChatSession& chat : chats) EXPECT_EQ(chat.ids(), chats[0].ids());
  }
}

// Pools of all sizes, in pages: a call that does not fit returns kOutOfMemory and changes nothing.
TEST(ChatMemoryOfPagesTest, CallsInTooSmallPoolsReturnOutOfMemoryAndChangeNothing) {
  const size_t page_bytes = KvLayout::make(2, 1, 4, KvDType::kF32).page_bytes();
  size_t n_failed = 0, n_done = 0;
  for (size_t n_pages = 1; n_pages < 14; ++n_pages) {
    SCOPED_TRACE(n_pages);
    World world(kChatMl, {.max_chunk = 16}, n_pages * page_bytes);
    world.model->script = nullptr;
    world.chat.emplace(world.session({.system = "be"}));
    const std::function<ErrorCode()> calls[] = {
        [&] { return world.chat->send(std::string(50, 'a'), world.options).status().code(); },
        [&] { return world.chat->regenerate(world.options).status().code(); },
        [&] { return world.chat->send(std::string(70, 'b'), penalised()).status().code(); },
        [&] { return world.chat->send_for_answers(std::string(60, 'c'), 3, world.options).status().code(); },
        [&] { return world.chat->edit(1, std::string(90, 'd'), world.options).status().code(); },
        [&] { return world.chat->prefill().status().code(); },
        [&] { return world.chat->fork().status().code(); },
    };
    const auto* const several_answers = &calls[3];
    for (const auto& call : calls) {
      SCOPED_TRACE(&call - calls);
      const SessionSnapshot before(*world.chat);
      const std::vector<size_t> counted = counters(*world.chat);
      const ErrorCode code = call();
      expect_rows_replay(*world.chat);
      if (code == ErrorCode::kOk) {
        // One of several answers may be over and idle, so that the others take its pages.
        if (&call != several_answers) expect_replays(*world.chat);
        ++n_done;
        continue;
      }
      const bool nothing_said = world.chat->state().messages().size() < 3;
      EXPECT_TRUE(code == ErrorCode::kOutOfMemory || (code == ErrorCode::kInvalidArgument && nothing_said));
      ++n_failed;
      EXPECT_TRUE(SessionSnapshot(*world.chat).same_conversation(before));
      EXPECT_EQ(counters(*world.chat), counted);
    }
  }
  EXPECT_GT(n_failed, 10u);
  EXPECT_GT(n_done, 40u);
}

}  // namespace
}  // namespace ibid
