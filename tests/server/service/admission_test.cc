// Who runs next.
#include "server/service/admission.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "server/service/kv_reservations.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid::serve {
namespace {

std::string next_of(Admission<std::string>& queue) { return queue.next().value_or("-"); }

TEST(AdmissionTest, NamespacesTakeTurns) {
  Admission<std::string> queue({.max_running = 100});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue.enter("a", 1, "a" + std::to_string(i)).ok());
  ASSERT_TRUE(queue.enter("b", 1, "b0").ok());
  ASSERT_TRUE(queue.enter("c", 1, "c0").ok());
  ASSERT_TRUE(queue.enter("b", 1, "b1").ok());
  std::string order;
  for (int i = 0; i < 8; ++i) order += next_of(queue) + " ";
  EXPECT_EQ(order, "a0 b0 c0 a1 b1 a2 a3 - ");
  EXPECT_EQ(queue.n_running(), 7u);
  EXPECT_EQ(queue.n_waiting(), 0u);
}

TEST(AdmissionTest, AsManyRunAsMay) {
  Admission<std::string> queue({.max_running = 2});
  for (const char* ticket : {"1", "2", "3"}) ASSERT_TRUE(queue.enter("a", 1, ticket).ok());
  EXPECT_EQ(next_of(queue), "1");
  EXPECT_EQ(next_of(queue), "2");
  EXPECT_EQ(next_of(queue), "-");
  queue.leave();
  EXPECT_EQ(next_of(queue), "3");
}

TEST(AdmissionTest, WhatIsTooMuchIsRefused) {
  Admission<std::string> queue({.max_running = 1, .max_waiting = 2, .max_waiting_prompt_bytes = 100});
  ASSERT_TRUE(queue.enter("a", 1000, "large").ok()) << "alone it may be as large as it likes";
  EXPECT_EQ(queue.enter("a", 1, "x").code(), ErrorCode::kBusy);
  EXPECT_EQ(next_of(queue), "large");
  ASSERT_TRUE(queue.enter("a", 60, "1").ok());
  EXPECT_EQ(queue.enter("b", 41, "x").code(), ErrorCode::kBusy);
  ASSERT_TRUE(queue.enter("b", 40, "2").ok());
  EXPECT_EQ(queue.enter("c", 0, "x").code(), ErrorCode::kBusy) << "two wait";
  queue.leave();
  EXPECT_EQ(next_of(queue), "1");
  ASSERT_TRUE(queue.enter("c", 60, "3").ok());
}

TEST(AdmissionTest, WhatIsRemovedIsNoMoreInTheWay) {
  Admission<std::string> queue({.max_running = 1, .max_waiting = 3, .max_waiting_prompt_bytes = 3});
  for (const char* ticket : {"1", "2", "3"}) ASSERT_TRUE(queue.enter(ticket, 1, ticket).ok());
  EXPECT_EQ(queue.remove_if([](const std::string& ticket) { return ticket != "2"; }),
            (std::vector<std::string>{"1", "3"}));
  EXPECT_EQ(queue.n_waiting(), 1u);
  ASSERT_TRUE(queue.enter("a", 2, "4").ok());
  EXPECT_EQ(next_of(queue), "2");
}

TEST(KvReservationsTest, WhoIsAloneMayHaveAll) {
  ChatFixture f;
  KvReservations ledger;
  const KvReservations::Need need{.n_prompt = 64, .n_answer = 64};
  const size_t page = f.engine->pool().layout().page_bytes();
  KvReservations::Room one = KvReservations::room_for(*f.engine, need);
  EXPECT_EQ(one.n_bytes, 3 * page) << "a page read, a page said, and the one that both begin on";
  one.n_bytes = 2 * one.budget_bytes;
  ASSERT_TRUE(ledger.try_reserve(one));
  KvReservations::Room two = KvReservations::room_for(*f.engine, need);
  EXPECT_FALSE(ledger.try_reserve(two));
  ledger.correct(one, KvReservations::room_for(*f.engine, need));
  EXPECT_TRUE(ledger.try_reserve(two));
  EXPECT_EQ(ledger.n_holders(one), 2u);
  ledger.give_back(two);
  two.n_bytes = two.budget_bytes;
  EXPECT_FALSE(ledger.try_reserve(two));
  ledger.give_back(one);
  ledger.give_back(one);  // it holds nothing any more
  EXPECT_TRUE(ledger.try_reserve(two));
}

TEST(KvReservationsTest, RoomIsForStatesAndForWhatATurnHolds) {
  const StateShape state{.floats = 1024, .row_floats = 16};
  const KvRowShape row{.n_kv_heads = 1, .head_dim = 16};
  const KvLayout layout = KvLayout::make(std::span(&row, 1), KvDType::kF32, std::span(&state, 1));
  const size_t page = layout.page_bytes(), of_state = layout.state_bytes();
  ASSERT_EQ(of_state, 4096u);
  const auto bytes = [&](const KvReservations::Need& need) { return KvReservations::bytes_for(layout, 1000, need); };
  EXPECT_EQ(bytes({.n_prompt = 65, .n_answer = 64}), 4 * page + 3 * of_state);
  EXPECT_EQ(bytes({.n_prompt = 65, .n_dropped = 65, .n_answer = 64}), 6 * page + 3 * of_state);
  EXPECT_EQ(bytes({.n_prompt = 65, .n_answer = 64, .n_answers = 4}), 10 * page + 12 * of_state);
  EXPECT_EQ(bytes({.n_prompt = 65, .n_answer = 64, .n_answers = 0}), 2 * page + 3 * of_state) << "it is read";
  EXPECT_EQ(bytes({.n_prompt = 1'000'000, .n_answer = SIZE_MAX}), 17 * page + 3 * of_state) << "no more than a context";
}

}  // namespace
}  // namespace ibid::serve
