#include "net/circuit_breaker.h"

#include <gtest/gtest.h>

#include "tests/support/manual_clock.h"

namespace ibid::net {
namespace {

using State = CircuitBreaker::State;
constexpr int64_t kSecond = 1'000'000'000;

class CircuitBreakerTest : public testing::Test {
 protected:
  ManualClock clock_;
  CircuitBreaker breaker_{clock_};
  const Status failure_{ErrorCode::kIo, "no answer"};
};

TEST_F(CircuitBreakerTest, ThirdConsecutiveFailureOpensIt) {
  breaker_.call_failed(failure_);
  breaker_.call_failed(failure_);
  breaker_.call_succeeded();
  breaker_.call_failed(failure_);
  breaker_.call_failed(failure_);
  EXPECT_EQ(breaker_.state(), State::kClosed);
  EXPECT_EQ(breaker_.probe_due_in_ns(), -1);
  breaker_.call_failed(failure_);
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_FALSE(breaker_.allows_calls());
  EXPECT_EQ(breaker_.reason(), "no answer");
  EXPECT_EQ(breaker_.n_opened(), 1u);
  EXPECT_EQ(breaker_.probe_due_in_ns(), kSecond);
}

TEST_F(CircuitBreakerTest, PauseBetweenProbesDoublesToAMinute) {
  breaker_.open(failure_);
  for (const int64_t pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(breaker_.probe_due_in_ns(), pause * kSecond);
    clock_.advance(pause * kSecond - 1);
    EXPECT_EQ(breaker_.probe_due_in_ns(), 1);
    clock_.advance(2);
    EXPECT_EQ(breaker_.probe_due_in_ns(), 0);
    breaker_.probe_failed(failure_);
  }
  EXPECT_EQ(breaker_.n_opened(), 1u);
}

TEST_F(CircuitBreakerTest, CallAfterASuccessfulProbeDecides) {
  breaker_.open(failure_);
  clock_.advance(kSecond);
  breaker_.probe_succeeded();
  EXPECT_EQ(breaker_.state(), State::kTrial);
  EXPECT_TRUE(breaker_.allows_calls());
  EXPECT_EQ(breaker_.reason(), "");
  breaker_.call_failed(failure_);
  EXPECT_EQ(breaker_.state(), State::kOpen) << "one failure on trial suffices";
  EXPECT_EQ(breaker_.probe_due_in_ns(), 2 * kSecond) << "the server answers probes only";
  breaker_.probe_succeeded();
  breaker_.call_succeeded();
  EXPECT_EQ(breaker_.state(), State::kClosed);
  breaker_.open(failure_);
  EXPECT_EQ(breaker_.probe_due_in_ns(), kSecond) << "the pause begins anew";
  EXPECT_EQ(breaker_.n_opened(), 3u);
}

TEST_F(CircuitBreakerTest, CallThatBeganBeforeItWasOpenedDoesNotCloseIt) {
  breaker_.open(failure_);
  breaker_.call_succeeded();
  EXPECT_EQ(breaker_.state(), State::kOpen);
  breaker_.call_failed(failure_);
  EXPECT_EQ(breaker_.probe_due_in_ns(), kSecond) << "nor does it lengthen the pause";
}

}  // namespace
}  // namespace ibid::net
