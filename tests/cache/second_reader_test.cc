#include "cache/tier/file_tier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace ibid {
namespace {

TEST(SecondReader, ReadRunsOnTwoThreadsAndBothReturn) {
  SecondReader second;
  std::atomic<int> inside{0};
  std::set<std::thread::id> readers;
  std::mutex mutex;
  std::latch both(2);
  second.share([&] {
    ++inside;
    {
      const std::lock_guard lock(mutex);
      readers.insert(std::this_thread::get_id());
    }
    both.arrive_and_wait();  // neither call returns before both have arrived
    --inside;
  });
  EXPECT_EQ(inside, 0);
  EXPECT_EQ(readers.size(), 2u);
}

TEST(SecondReader, SequentialCallersGetAllWorkDone) {
  SecondReader second;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> done(16, 0);
    std::atomic<size_t> next{0};
    second.share([&] {
      for (size_t i = next++; i < done.size(); i = next++) ++done[i];
    });
    for (const int n : done) ASSERT_EQ(n, 1);
  }
}

TEST(SecondReader, ConcurrentCallersGetAllWorkDone) {
  SecondReader second;
  std::vector<std::thread> callers;
  std::atomic<size_t> total{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<size_t> next{0};
        second.share([&] {
          while (next++ < 10) ++total;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4u * 500u * 10u);
}

TEST(SecondReader, ReaderThatNeverRanCanBeDestroyed) { const SecondReader second; }

}  // namespace
}  // namespace ibid
