// No ring is lost in any interleaving of rings and waits. The delay of soft rings is not tested here.
#include "ibid/waker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace ibid {
namespace {

TEST(WakerTest, WakeBeforeWaitEndsTheWait) {
  Waker waker;
  waker.ring();
  waker.wait();
  waker.wake_softly();
  waker.wait();
  waker.wake_softly();
  waker.ring();
  waker.wait();
}

// The ringer waits until each ring is seen: a lost ring hangs.
TEST(WakerTest, EveryWakeEndsAWait) {
  Waker waker;
  std::atomic<int> n_told{0};
  std::atomic<int> n_heard{0};
  constexpr int kRings = 2000;
  std::thread ringer([&] {
    for (int i = 1; i <= kRings; ++i) {
      n_told.store(i);
      i % 50 == 0 ? waker.wake_softly() : waker.ring();
      while (n_heard.load() < i) std::this_thread::yield();
    }
  });
  while (n_heard.load() < kRings) {
    const int n = n_told.load();
    if (n == n_heard.load()) waker.wait();
    n_heard.store(n_told.load());
  }
  ringer.join();
}

// Soft rings of a running answer are coalesced: each wait sees all events before it.
TEST(WakerTest, SoftWakesAreCoalesced) {
  Waker waker;
  std::atomic<int> n_told{0};
  constexpr int kRings = 200'000;
  std::thread ringer([&] {
    for (int i = 1; i <= kRings; ++i) {
      n_told.store(i);
      waker.wake_softly();
    }
  });
  int n_waits = 0;
  for (; n_told.load() < kRings; ++n_waits) waker.wait();
  ringer.join();
  EXPECT_LT(n_waits, kRings / 10);
}

}  // namespace
}  // namespace ibid
