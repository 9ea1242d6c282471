// No ring is lost, however rings and waits fall together. What a soft ring leaves out is time alone, which no test
// here looks at.
#include "ibid/bell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace ibid {
namespace {

TEST(BellTest, ARingThatCameBeforeTheWaitIsHeard) {
  Bell bell;
  bell.ring();
  bell.wait();
  bell.ring_softly();
  bell.wait();
  bell.ring_softly();
  bell.ring();
  bell.wait();
}

// The ringer goes on when it was heard: a lost ring hangs.
TEST(BellTest, EveryRingEndsAWait) {
  Bell bell;
  std::atomic<int> n_told{0};
  std::atomic<int> n_heard{0};
  constexpr int kRings = 2000;
  std::thread ringer([&] {
    for (int i = 1; i <= kRings; ++i) {
      n_told.store(i);
      i % 50 == 0 ? bell.ring_softly() : bell.ring();
      while (n_heard.load() < i) std::this_thread::yield();
    }
  });
  while (n_heard.load() < kRings) {
    const int n = n_told.load();
    if (n == n_heard.load()) bell.wait();
    n_heard.store(n_told.load());
  }
  ringer.join();
}

// Soft rings alone, as of an answer that goes on, come together: each wait hears all that was told before.
TEST(BellTest, SoftRingsAreHeardTogether) {
  Bell bell;
  std::atomic<int> n_told{0};
  constexpr int kRings = 200'000;
  std::thread ringer([&] {
    for (int i = 1; i <= kRings; ++i) {
      n_told.store(i);
      bell.ring_softly();
    }
  });
  int n_waits = 0;
  for (; n_told.load() < kRings; ++n_waits) bell.wait();
  ringer.join();
  EXPECT_LT(n_waits, kRings / 10);
}

}  // namespace
}  // namespace ibid
