#include "base/work_threads.h"

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(WorkThreads, EndRunsAllPostedWork) {
  std::atomic<int> n_run{0};
  WorkThreads threads(2, "test");
  for (int i = 0; i < 100; ++i) {
    threads.post([&] {
      ++n_run;
      threads.post([&] { ++n_run; });  // work may post work
    });
  }
  threads.end();
  EXPECT_EQ(n_run, 200);
}

TEST(WorkThreads, WorkOfOneThreadRunsInOrder) {
  std::vector<int> order;
  WorkThreads threads(1, "test");
  for (int i = 0; i < 3; ++i) threads.post([&order, i] { order.push_back(i); });
  threads.end();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(WorkThreads, StopDropsWaitingAndLaterWork) {
  std::promise<void> has_begun, may_end;
  std::atomic<int> n_run{0};
  WorkThreads threads(1, "test");
  threads.post([&] {
    has_begun.set_value();
    may_end.get_future().wait();
    ++n_run;
  });
  threads.post([&] { ++n_run; });
  has_begun.get_future().wait();
  std::thread stopper([&] { threads.stop(); });
  const auto is_dropped = [&] {
    const auto probe = std::make_shared<int>(0);
    threads.post([probe, &n_run] { ++n_run; });
    return probe.use_count() == 1;
  };
  while (!is_dropped()) std::this_thread::yield();
  may_end.set_value();
  stopper.join();
  EXPECT_EQ(n_run, 1) << "only the work that had begun";
}

TEST(WorkThreads, ExceptionOfWorkIsIgnored) {
  std::atomic<int> n_run{0};
  WorkThreads threads(1, "test");
  threads.post_guarded([] { throw std::runtime_error("x"); });
  threads.post([&] { ++n_run; });
  threads.end();
  EXPECT_EQ(n_run, 1);
}

}  // namespace
}  // namespace ibid
