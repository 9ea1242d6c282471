#include "server/http/worker_pool.h"

#include <pthread.h>

#include <utility>

#include "server/http/guarded.h"

namespace ibid::http {

WorkerPool::WorkerPool(int n_threads) {
  try {
    for (int i = 0; i < n_threads; ++i) {
      threads_.emplace_back([this] {
        pthread_setname_np(pthread_self(), "ibid-worker");
        work();
      });
    }
  } catch (...) {
    stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_stopped_) tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void WorkerPool::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    dropped.swap(tasks_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return is_stopped_ || !tasks_.empty(); });
      if (is_stopped_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    guarded(task);
  }
}

}  // namespace ibid::http
