// WorkerPool: the threads that handlers run on, so that one that takes its time holds up no other connection's bytes.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ibid::http {

class WorkerPool {
 public:
  explicit WorkerPool(int n_threads);  // throws std::system_error where there is no thread to be had
  ~WorkerPool();  // as stop()
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs it on one of the threads. After stop() it is dropped. What a task throws ends with it.
  void run(std::function<void()> task);
  // Drops what waits, and returns when no task runs any more.
  void stop();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ibid::http
