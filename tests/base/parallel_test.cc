#include "base/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/support/no_threads.h"
#include "tests/support/process_threads.h"

namespace ibid {
namespace {

TEST(WorkerShare, SharesAreContiguousDisjointAndComplete) {
  Barrier barrier(1);
  for (const int count : {1, 2, 3, 8}) {
    for (const size_t n : {0u, 1u, 2u, 7u, 16u, 17u, 100u, 1000u}) {
      for (const size_t grain : {1u, 4u, 16u}) {
        size_t next = 0;
        size_t smallest = n;
        size_t largest = 0;
        for (int i = 0; i < count; ++i) {
          const Range range = Worker(i, count, barrier).share(n, grain);
          if (range.empty()) {
            smallest = 0;
            continue;
          }
          ASSERT_EQ(range.begin, next);
          ASSERT_EQ(range.begin % grain, 0u);
          next = range.end;
          smallest = std::min(smallest, range.size());
          largest = std::max(largest, range.size());
        }
        ASSERT_EQ(next, n);
        ASSERT_LE(largest, smallest + 2 * grain - 1) << n << '/' << count << " by " << grain;
      }
    }
  }
}

std::unique_ptr<ThreadTeam> team_of(int n_threads,
                                    OversubscriptionPolicy when_crowded = OversubscriptionPolicy::kAllThreads) {
  return ThreadTeam::create(n_threads, when_crowded).value();
}

class TeamOf : public testing::TestWithParam<int> {};

TEST_P(TeamOf, EachWorkerRunsOnceWithItsIndex) {
  const auto team = team_of(GetParam());
  EXPECT_EQ(team->size(), GetParam());
  for (int repeat = 0; repeat < 100; ++repeat) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(team->size()));
    std::atomic<int> count{0};
    team->run([&](const Worker& worker) {
      runs[static_cast<size_t>(worker.index())].fetch_add(1);
      count = worker.count();
    });
    ASSERT_EQ(count.load(), team->size());
    for (const auto& n : runs) ASSERT_EQ(n.load(), 1);
  }
}

// Every step reads the results of the other threads from the previous step. A barrier that lets a thread pass early, or
// does not publish its writes, gives a wrong sum (and a race under ThreadSanitizer).
TEST_P(TeamOf, BarrierWaitsForAllThreadsAndPublishesTheirWrites) {
  const auto team = team_of(GetParam());
  constexpr int kSteps = 300;
  std::vector<std::vector<int>> values(2, std::vector<int>(static_cast<size_t>(team->size()), 1));
  team->run([&](const Worker& worker) {
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<int>& before = values[static_cast<size_t>(step % 2)];
      const int sum = std::accumulate(before.begin(), before.end(), 0);
      values[static_cast<size_t>((step + 1) % 2)][static_cast<size_t>(worker.index())] = sum / worker.count() + 1;
      worker.barrier();
    }
  });
  for (const int value : values[kSteps % 2]) EXPECT_EQ(value, kSteps + 1);
}

// A thread that arrives long after the others have stopped spinning wakes them.
TEST_P(TeamOf, SleepingThreadsAreWokenAtABarrier) {
  const auto team = team_of(GetParam());
  std::atomic<int> arrived{0};
  for (int late = 0; late < team->size(); ++late) {
    arrived = 0;
    team->run([&](const Worker& worker) {
      if (worker.index() == late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      arrived.fetch_add(1);
      worker.barrier();
      EXPECT_EQ(arrived.load(), worker.count());
    });
  }
}

// Each thread of a region creates a team of its own.
TEST_P(TeamOf, NestedTeamsRunOnAllTheirThreads) {
  const auto outer = team_of(2);
  outer->run([&](const Worker&) {
    const auto inner = team_of(GetParam());
    std::atomic<int> ran{0};
    std::atomic<size_t> items{0};
    inner->run([&](const Worker& worker) {
      ran.fetch_add(1);
      EXPECT_EQ(worker.count(), GetParam());
      items.fetch_add(worker.share(1000).size());
      worker.barrier();
    });
    EXPECT_EQ(ran.load(), GetParam());
    EXPECT_EQ(items.load(), 1000u);
  });
}

// The caller is one of the team's threads. The other threads are created once, for any number of callers and regions.
TEST_P(TeamOf, ThreadsAreCreatedOnce) {
  const size_t before = n_threads_here();
  {
    const auto team = team_of(GetParam());
    const size_t with_team = before + static_cast<size_t>(GetParam()) - 1;
    EXPECT_EQ(n_threads_here(), with_team);
    for (int caller = 0; caller < 20; ++caller) {
      std::thread([&] { team->run([](const Worker& worker) { worker.barrier(); }); }).join();
    }
    EXPECT_EQ(n_threads_here(), with_team);
  }
  EXPECT_EQ(n_threads_here(), before);
}

// A region wakes the threads that went to sleep after the spin.
TEST_P(TeamOf, RegionWakesSleepingThreads) {
  const auto team = team_of(GetParam());
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> ran{0};
    team->run([&](const Worker&) { ran.fetch_add(1); });
    EXPECT_EQ(ran.load(), GetParam());
  }
}

TEST_P(TeamOf, FailureToStartAThreadReturnsAStatus) {
  const size_t before = n_threads_here();
  {
    const NoThreads none;
    const Result<std::unique_ptr<ThreadTeam>> team = ThreadTeam::create(GetParam());
    EXPECT_EQ(team.ok(), GetParam() == 1) << "the caller is the first thread";
    if (!team.ok()) {
      EXPECT_EQ(team.status().code(), ErrorCode::kOutOfMemory);
      EXPECT_NE(team.status().message().find("thread 2 of " + std::to_string(GetParam())), std::string::npos)
          << team.status().message();
    }
  }
  EXPECT_EQ(n_threads_here(), before);
}

#ifndef __SANITIZE_THREAD__  // ThreadSanitizer kills children of multi-threaded processes
TEST_P(TeamOf, ForkedChildRunsRegionsOnOneThread) {
  auto team = team_of(GetParam());
  team->run([](const Worker&) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    size_t items = 0;
    team->run([&](const Worker& worker) {
      worker.barrier();
      items += worker.share(1000).size();
    });
    team.reset();
    _exit(items == 1000 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::atomic<int> ran{0};
  team->run([&](const Worker&) { ran.fetch_add(1); });
  EXPECT_EQ(ran.load(), GetParam()) << "the parent keeps its threads";
}
#endif

// 8 threads exceed the cores of many machines; then the barrier must sleep instead of spinning.
INSTANTIATE_TEST_SUITE_P(Threads, TeamOf, testing::Values(1, 2, 3, 8));

TEST(ThreadTeam, TeamOfZeroThreadsUsesTheCpusOfTheAffinityMask) {
  EXPECT_GE(available_cpus(), 1);
  EXPECT_EQ(team_of(0)->size(), available_cpus());
}

TEST(ThreadTeam, RegionsSeeEachOthersWrites) {
  const auto team = team_of(3);
  std::vector<int> values(100, 0);
  for (int repeat = 0; repeat < 200; ++repeat) {
    team->run([&](const Worker& worker) {
      const Range range = worker.share(values.size());
      for (size_t i = range.begin; i < range.end; ++i) ++values[values.size() - 1 - i];
    });
  }
  for (const int value : values) EXPECT_EQ(value, 200);
}

// Runs a region whose last thread, unless it is the only one, is late. Returns its thread count.
int run_late(ThreadTeam& team) {
  int count = 0;
  team.run([&](const Worker& worker) {
    if (worker.index() == worker.count() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    worker.barrier();
    if (worker.index() == 0) count = worker.count();
  });
  return count;
}

TEST(ThreadTeam, LateThreadsAreLeftOutAndTriedAgain) {
  if (available_cpus() < 2) GTEST_SKIP() << "on one CPU every thread is late";
  const auto team = team_of(2, OversubscriptionPolicy::kSkipLateThreads);
  int regions = 0;
  while (run_late(*team) == 2) ASSERT_LT(++regions, 1000);
  EXPECT_GT(regions, 1) << "a single wait must not suffice";
  regions = 0;
  while (run_late(*team) == 1) ASSERT_LT(++regions, 1000);
}

TEST(ThreadTeam, WaitsForLateThreadsByDefault) {
  const auto team = team_of(2);
  for (int i = 0; i < 40; ++i) ASSERT_EQ(run_late(*team), 2);
}

TEST(Barrier, WaitReturnsWhenAllThreadsHaveArrived) {
  constexpr int kThreads = 5;
  Barrier barrier(kThreads);
  std::atomic<int> arrived{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int step = 1; step <= 200; ++step) {
        arrived.fetch_add(1);
        barrier.wait();
        EXPECT_EQ(arrived.load(), step * kThreads);
        barrier.wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ibid
