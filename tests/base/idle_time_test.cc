#include "base/idle_time.h"

#include <gtest/gtest.h>

#include <thread>

namespace ibid {
namespace {

TEST(IdleTime, AnIdleMomentComes) {
  const std::unique_ptr<IdleTime> idle = make_idle_time();
  for (int i = 0; i < 3; ++i) idle->wait();
}

TEST(IdleTime, WhoWaitsCanBeInterrupted) {
  for (int i = 0; i < 100; ++i) {
    const std::unique_ptr<IdleTime> idle = make_idle_time();
    std::thread waits([&] { idle->wait(); });
    idle->interrupt();
    waits.join();
    idle->interrupt();
    idle->wait();  // at once: it was interrupted before
  }
}

TEST(IdleTime, NobodyWaitsForItsThreadToEnd) {
  for (int i = 0; i < 100; ++i) make_idle_time();
}

}  // namespace
}  // namespace ibid
