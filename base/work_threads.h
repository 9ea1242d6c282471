// WorkThreads: a few threads that run posted functions in order, for work that takes longer than the thread that posts
// it may wait. Thread-safe.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ibid {

class WorkThreads {
 public:
  using Work = std::function<void()>;

  // name: of the threads, for debuggers; at most 15 characters. Throws std::system_error if no thread can be created.
  WorkThreads(size_t n, const char* name) {
    try {
      for (size_t i = 0; i < n; ++i) {
        threads_.emplace_back([this, name] {
          pthread_setname_np(pthread_self(), name);
          run();
        });
      }
    } catch (...) {
      end();
      throw;
    }
  }
  ~WorkThreads() { end(); }
  WorkThreads(const WorkThreads&) = delete;
  WorkThreads& operator=(const WorkThreads&) = delete;

  // Runs `work`, which must not throw, on one of the threads.
  void post(Work work) {
    {
      const std::lock_guard lock(mutex_);
      if (drops_) return;
      queue_.push_back(std::move(work));
    }
    posted_.notify_one();
  }
  // As post(). Exceptions of `work` are ignored, and not logged, because their messages may quote text from a client.
  void post_guarded(Work work) {
    post([work = std::move(work)] {
      try {
        work();
      } catch (...) {
      }
    });
  }
  // Runs all posted work and the work that it posts, then joins the threads. REQUIRES: nothing else calls post() any
  // more.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    posted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // Drops the waiting work and all work that is posted later, waits until none is running, and joins the threads.
  void stop() {
    std::deque<Work> dropped;  // destroyed without the lock
    {
      const std::lock_guard lock(mutex_);
      drops_ = true;
      dropped.swap(queue_);
    }
    end();
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
  bool drops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ibid
