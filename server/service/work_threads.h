// WorkThreads: a few threads that run posted functions in order, for work that takes longer than a network thread may
// wait: planning a prompt, loading a model. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ibid::serve {

class WorkThreads {
 public:
  using Work = std::function<void()>;  // must not throw

  explicit WorkThreads(size_t n) {
    for (size_t i = 0; i < n; ++i) threads_.emplace_back([this] { run(); });
  }
  ~WorkThreads() { end(); }
  // Runs all posted work, then joins the threads. REQUIRES: post() is not called any more.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    posted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  WorkThreads(const WorkThreads&) = delete;
  WorkThreads& operator=(const WorkThreads&) = delete;

  void post(Work work) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    posted_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      posted_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Work work = std::exchange(queue_.front(), {});
      queue_.pop_front();
      lock.unlock();
      work();
      work = {};  // destroy the work without the lock: a session in it may take long to destroy, or may post
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Work> queue_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ibid::serve
