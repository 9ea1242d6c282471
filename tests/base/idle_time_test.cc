#include "base/idle_time.h"

#include <gtest/gtest.h>

#include <thread>

namespace ibid {
namespace {

TEST(IdleTime, WaitReturnsWhenAProcessorIsIdle) {
  const std::unique_ptr<IdleTime> idle = make_idle_time();
  for (int i = 0; i < 3; ++i) idle->wait();
}

TEST(IdleTime, WaitCanBeInterrupted) {
  for (int i = 0; i < 100; ++i) {
    const std::unique_ptr<IdleTime> idle = make_idle_time();
    std::thread waits([&] { idle->wait(); });
    idle->interrupt();
    waits.join();
    idle->interrupt();
    idle->wait();  // returns at once, because interrupt() was called before
  }
}

TEST(IdleTime, DestructorDoesNotJoinTheThread) {
  for (int i = 0; i < 100; ++i) make_idle_time();
}

}  // namespace
}  // namespace ibid
