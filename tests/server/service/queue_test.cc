#include "server/service/queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/chat_fixture.h"

namespace ibid::serve {
namespace {

using State = Scheduled::State;

class FakeJob final : public Job {
 public:
  FakeJob(std::string owner, size_t prompt_bytes)
      : Job({.owner = std::move(owner), .prompt_bytes = prompt_bytes}, std::make_shared<Waker>()) {}
  Status plan(const Place&) override { return {}; }
  void end(const Status&) override {}
};

struct NamedQueue {
  explicit NamedQueue(const QueueLimits& limits = {}) : queue(limits) {}

  Status enter(const std::string& owner, size_t prompt_bytes, const std::string& name) {
    auto request = std::make_shared<Scheduled>(std::make_unique<FakeJob>(owner, prompt_bytes));
    request->model = name;
    return queue.enter(request);
  }
  std::string next() {
    const ScheduledPtr request = queue.admit();
    if (request == nullptr) return "-";
    admitted.push_back(request);
    return request->model;
  }
  // The request that was admitted first leaves.
  void leave() {
    EXPECT_TRUE(queue.leave(*admitted.front()).empty());
    queue.forget(admitted.front());
    admitted.erase(admitted.begin());
  }
  ScheduledPtr admit_one(const std::string& owner = "a") {
    EXPECT_TRUE(enter(owner, 1, "").ok());
    return queue.admit();
  }
  // The same with a reservation.
  ScheduledPtr admit_one(const KvRoom& room) {
    ScheduledPtr request = admit_one();
    EXPECT_TRUE(queue.reserve(request, room));
    return request;
  }

  Queue queue;
  std::vector<ScheduledPtr> admitted;
};

TEST(QueueTest, NamespacesAreAdmittedInTurns) {
  NamedQueue q({.max_running = 100});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(q.enter("a", 1, "a" + std::to_string(i)).ok());
  ASSERT_TRUE(q.enter("b", 1, "b0").ok());
  ASSERT_TRUE(q.enter("c", 1, "c0").ok());
  ASSERT_TRUE(q.enter("b", 1, "b1").ok());
  std::string order;
  for (int i = 0; i < 8; ++i) order += q.next() + " ";
  EXPECT_EQ(order, "a0 b0 c0 a1 b1 a2 a3 - ");
  EXPECT_EQ(q.queue.n_running(), 7u);
  EXPECT_EQ(q.queue.n_waiting(), 0u);
}

TEST(QueueTest, AtMostMaxRunningRequestsAreAdmitted) {
  NamedQueue q({.max_running = 2});
  for (const char* name : {"1", "2", "3"}) ASSERT_TRUE(q.enter("a", 1, name).ok());
  EXPECT_EQ(q.next(), "1");
  EXPECT_EQ(q.next(), "2");
  EXPECT_EQ(q.next(), "-");
  q.leave();
  EXPECT_EQ(q.next(), "3");
}

TEST(QueueTest, RequestsAboveTheLimitsAreRefused) {
  NamedQueue q({.max_running = 1, .max_waiting = 2, .max_waiting_prompt_bytes = 100});
  ASSERT_TRUE(q.enter("a", 1000, "large").ok()) << "a single request may have any size";
  EXPECT_EQ(q.enter("a", 1, "x").code(), ErrorCode::kBusy);
  EXPECT_EQ(q.next(), "large");
  ASSERT_TRUE(q.enter("a", 60, "1").ok());
  EXPECT_EQ(q.enter("b", 41, "x").code(), ErrorCode::kBusy);
  ASSERT_TRUE(q.enter("b", 40, "2").ok());
  EXPECT_EQ(q.enter("c", 0, "x").code(), ErrorCode::kBusy) << "two wait";
  q.leave();
  EXPECT_EQ(q.next(), "1");
  ASSERT_TRUE(q.enter("c", 60, "3").ok());
}

TEST(QueueTest, StoppedRequestsLeaveTheQueue) {
  NamedQueue q({.max_running = 1, .max_waiting = 3, .max_waiting_prompt_bytes = 3});
  for (const char* name : {"1", "2", "3"}) ASSERT_TRUE(q.enter(name, 1, name).ok());
  for (const ScheduledPtr& request : q.queue.all()) {
    if (request->model != "2") request->job->stop(ErrorCode::kCancelled);
  }
  std::vector<std::string> stopped;
  for (const ScheduledPtr& request : q.queue.take_stopped()) stopped.push_back(request->model);
  EXPECT_EQ(stopped, (std::vector<std::string>{"1", "3"}));
  EXPECT_EQ(q.queue.n_waiting(), 1u);
  ASSERT_TRUE(q.enter("a", 2, "4").ok());
  EXPECT_EQ(q.next(), "2");
}

TEST(QueueTest, RequestCountsMatchRequestStates) {
  ChatFixture chat;
  NamedQueue q;
  const KvRoom room{.engine = chat.engine.get(), .n_bytes = 6, .budget_bytes = 10};
  const auto expect = [&](const Scheduled& request, State state, size_t n_running, size_t n_waiting) {
    EXPECT_EQ(request.state(), state);
    EXPECT_EQ(q.queue.n_running(), n_running);
    EXPECT_EQ(q.queue.n_waiting(), n_waiting);
  };
  const ScheduledPtr first = q.admit_one(room);
  ASSERT_TRUE(q.enter("b", 1, "second").ok());
  const ScheduledPtr second = q.queue.all().back();
  expect(*second, State::kWaitingForTurn, 1, 1);
  EXPECT_EQ(q.queue.admit(), second);
  expect(*second, State::kPlanning, 2, 0);
  q.queue.wait_for_model(*second, 7);
  expect(*second, State::kWaitingForModel, 2, 0);
  EXPECT_TRUE(q.queue.take_for_models(7).empty());
  EXPECT_EQ(q.queue.take_for_models(8), std::vector<ScheduledPtr>{second});
  EXPECT_FALSE(q.queue.reserve(second, room));
  expect(*second, State::kWaitingForMemory, 1, 1);
  q.queue.run(*first);
  EXPECT_EQ(q.queue.running(), std::vector<ScheduledPtr>{first});
  EXPECT_EQ(q.queue.leave(*first), std::vector<ScheduledPtr>{second});
  expect(*second, State::kPlanning, 1, 0);
  q.queue.leave(*second);
  expect(*second, State::kOutside, 0, 0);
  EXPECT_FALSE(q.queue.is_empty());
  q.queue.forget(first);
  q.queue.forget(second);
  EXPECT_TRUE(q.queue.is_empty());
}

TEST(QueueTest, SingleRequestMayReserveTheWholeBudget) {
  ChatFixture f;
  NamedQueue q;
  const size_t page = f.engine->state().pool().layout().page_bytes(), budget = f.engine->state().pool().budget_bytes();
  const size_t n_bytes =
      kv_bytes_for(f.engine->state().pool().layout(), f.engine->max_seq_len(), {.n_prompt = 64, .n_answer = 64});
  EXPECT_EQ(n_bytes, 3 * page) << "a page of the prompt, a page of the answer, and the shared one";
  const auto room = [&](size_t n) { return KvRoom{.engine = f.engine.get(), .n_bytes = n, .budget_bytes = budget}; };
  const ScheduledPtr one = q.admit_one(room(2 * budget));
  const ScheduledPtr two = q.admit_one();
  EXPECT_FALSE(q.queue.reserve(two, room(n_bytes)));
  q.queue.correct(*one, room(n_bytes));
  EXPECT_EQ(q.queue.leave(*q.admit_one()), std::vector<ScheduledPtr>{two});
  EXPECT_EQ(q.queue.n_holders(*f.engine), 2u);
  EXPECT_TRUE(q.queue.leave(*two).empty());
  const ScheduledPtr three = q.admit_one();
  EXPECT_FALSE(q.queue.reserve(three, room(budget)));
  EXPECT_EQ(q.queue.leave(*one), std::vector<ScheduledPtr>{three});
  EXPECT_TRUE(q.queue.leave(*one).empty()) << "it holds no memory any more";
  EXPECT_EQ(q.queue.n_holders(*f.engine), 1u);
}

TEST(QueueTest, ReservationIncludesStatesAndDroppedTokens) {
  const StateShape state{.floats = 1024, .row_floats = 16};
  const KvRowShape row{.n_kv_heads = 1, .head_dim = 16};
  const KvLayout layout = KvLayout::make(std::span(&row, 1), KvDType::kF32, std::span(&state, 1));
  const size_t page = layout.page_bytes(), of_state = layout.state_bytes();
  ASSERT_EQ(of_state, 4096u);
  const auto bytes = [&](const KvNeed& need) { return kv_bytes_for(layout, 1000, need); };
  EXPECT_EQ(bytes({.n_prompt = 65, .n_answer = 64}), 4 * page + 3 * of_state);
  EXPECT_EQ(bytes({.n_prompt = 65, .n_dropped = 65, .n_answer = 64}), 6 * page + 3 * of_state);
  EXPECT_EQ(bytes({.n_prompt = 65, .n_answer = 64, .n_answers = 4}), 10 * page + 12 * of_state);
  EXPECT_EQ(bytes({.n_prompt = 65, .n_answer = 64, .n_answers = 0}), 2 * page + 3 * of_state) << "prefill only";
  EXPECT_EQ(bytes({.n_prompt = 1'000'000, .n_answer = SIZE_MAX}), 17 * page + 3 * of_state) << "at most a full context";
}

// Others may leave between the failed allocation and the event thread's reaction.
TEST(QueueTest, RequestOutOfMemoryRetriesAtOnceIfOthersHaveLeft) {
  ChatFixture chat;
  NamedQueue q;
  const KvRoom room{.engine = chat.engine.get(), .n_bytes = 1, .budget_bytes = 10};
  const ScheduledPtr first = q.admit_one(room), second = q.admit_one(room);
  EXPECT_TRUE(q.queue.leave(*first).empty());
  EXPECT_EQ(q.queue.wait_for_memory(second, second->room()), Queue::Retry::kNow);
  EXPECT_EQ(q.queue.wait_for_memory(second, second->room()), Queue::Retry::kNever) << "it was alone then";
}

TEST(QueueTest, RequestOutOfMemoryWaitsForMoreMemoryAndThenForAllMemory) {
  ChatFixture chat;
  NamedQueue q;
  const auto room = [&](size_t n) { return KvRoom{.engine = chat.engine.get(), .n_bytes = n, .budget_bytes = 10}; };
  const ScheduledPtr one = q.admit_one(room(1)), two = q.admit_one(room(4)), three = q.admit_one(room(5));
  EXPECT_EQ(q.queue.wait_for_memory(one, room(3)), Queue::Retry::kLater);
  EXPECT_EQ(q.queue.leave(*two), std::vector<ScheduledPtr>{one}) << "it fits together with the third";
  const ScheduledPtr four = q.admit_one(room(1));
  EXPECT_EQ(q.queue.wait_for_memory(one, room(3)), Queue::Retry::kLater);
  EXPECT_TRUE(q.queue.leave(*four).empty());
  EXPECT_EQ(q.queue.leave(*three), std::vector<ScheduledPtr>{one}) << "it is alone";
}

TEST(QueueTest, SecondOfTwoRequestsOutOfMemoryGetsAllMemory) {
  ChatFixture chat;
  NamedQueue q;
  const KvRoom room{.engine = chat.engine.get(), .n_bytes = 5, .budget_bytes = 10};
  const ScheduledPtr first = q.admit_one(room), second = q.admit_one(room);
  EXPECT_EQ(q.queue.wait_for_memory(first, room), Queue::Retry::kLater);
  EXPECT_EQ(q.queue.wait_for_memory(second, room), Queue::Retry::kNow);
  EXPECT_EQ(q.queue.wait_for_memory(second, room), Queue::Retry::kNever);
  EXPECT_EQ(q.queue.leave(*second), std::vector<ScheduledPtr>{first});
}

}  // namespace
}  // namespace ibid::serve
