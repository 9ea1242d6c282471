#include "base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ibid {
namespace {

constexpr int64_t kMs = 1'000'000;

// Records regions that follow each other without a pause.
struct Regions {
  explicit Regions(int n_threads) : crowding(n_threads) {}

  // Records a region of `wall_ms` that waited `late_ms` for `n_missing` threads. Returns its thread count.
  int run(int64_t wall_ms, int64_t late_ms = 0, int n_missing = 1) {
    const int n = crowding.n_threads(now_ns);
    WaitTime late;
    late.add(late_ms * kMs, n_missing);
    crowding.record(n, now_ns, now_ns + wall_ms * kMs, late);
    now_ns += wall_ms * kMs;
    return n;
  }

  // Runs regions that compete with another program until one has fewer threads. Returns their total time.
  int64_t until_fewer(int n_missing = 1) {
    const int64_t start_ns = now_ns;
    const int n = crowding.n_threads(now_ns);
    while (crowding.n_threads(now_ns) == n && now_ns - start_ns < 1000 * kMs) run(10, 8, n_missing);
    return now_ns - start_ns;
  }

  // Runs regions until one has `n` threads. Returns their total time.
  int64_t until(int n) {
    const int64_t start_ns = now_ns;
    while (crowding.n_threads(now_ns) != n) run(1);
    return now_ns - start_ns;
  }

  Oversubscription crowding;
  int64_t now_ns = 5'000'000 * kMs;
};

TEST(Oversubscription, AllThreadsAreUsedIfTheyArriveInTime) {
  Regions regions(4);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(regions.run(3), 4);
}

TEST(Oversubscription, SingleShortWaitsDoNotReduceTheTeam) {
  Regions regions(2);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(regions.run(33, 30), 2);
    for (int j = 0; j < 20; ++j) ASSERT_EQ(regions.run(3), 2);
  }
}

TEST(Oversubscription, SingleLongWaitDoesNotReduceTheTeam) {
  Regions regions(2);
  ASSERT_EQ(regions.run(1000, 990), 2);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(regions.run(3), 2);
  ASSERT_EQ(regions.run(1000, 990), 2);
  ASSERT_EQ(regions.run(1000, 990), 2);
  EXPECT_EQ(regions.run(3), 1) << "two consecutive waits suffice";
}

TEST(Oversubscription, LateThreadIsLeftOutOfLaterRegions) {
  Regions regions(2);
  EXPECT_LE(regions.until_fewer(), 100 * kMs);
  EXPECT_EQ(regions.run(6), 1);
  regions.until(2);
  EXPECT_EQ(regions.run(3), 2);
}

TEST(Oversubscription, LeavesOutAsManyThreadsAsWereLate) {
  Regions one(8), three(8);
  one.until_fewer(1);
  EXPECT_EQ(one.run(3), 7);
  three.until_fewer(3);
  EXPECT_EQ(three.run(3), 5);
  three.until_fewer(2);  // two more threads lose their cores
  EXPECT_EQ(three.run(3), 3);
  three.until(8);
}

TEST(Oversubscription, MissingThreadsAreWeightedByWaitingTime) {
  Oversubscription crowding(8);
  WaitTime late;
  late.add(99 * kMs, 2);
  late.add(1 * kMs, 7);
  crowding.record(8, 0, 100 * kMs, late);
  crowding.record(8, 100 * kMs, 200 * kMs, late);
  EXPECT_EQ(crowding.n_threads(200 * kMs), 6);
}

// One of eight threads that is late for a sixteenth of the time costs only half of its contribution, so it stays.
TEST(Oversubscription, SlowThreadsStayWhileTheyContributeMoreThanTheyCost) {
  Regions two(2), eight(8), late(8);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(two.run(100, 49), 2);
    ASSERT_EQ(eight.run(100, 12), 8);
    ASSERT_EQ(eight.run(100, 49, 4), 8);
  }
  for (int i = 0; i < 1000 && late.crowding.n_threads(late.now_ns) == 8; ++i) late.run(100, 14);
  EXPECT_EQ(late.run(100), 7);
}

TEST(Oversubscription, TrialsWithAllThreadsBecomeRarerWhileCoresAreContended) {
  for (const int n : {2, 3}) {
    Regions regions(n);
    const int64_t first_ns = regions.until_fewer();
    int64_t period_ns = Oversubscription::kShortestNs;
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(regions.until(n), period_ns);
      EXPECT_LT(regions.until_fewer(), first_ns) << "a trial takes as long as the first detection";
      period_ns = std::min(4 * period_ns, Oversubscription::kLongestNs);
    }
    EXPECT_EQ(period_ns, Oversubscription::kLongestNs);
    // The competing program ends. A later one is detected in the same way as the first.
    regions.until(n);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(regions.run(3), n);
    EXPECT_EQ(regions.until_fewer(), first_ns);
    EXPECT_EQ(regions.until(n), Oversubscription::kShortestNs);
  }
}

TEST(Oversubscription, SingleThreadIsNeverLeftOut) {
  Regions regions(1);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(regions.run(10, 10), 1);
}

}  // namespace
}  // namespace ibid
