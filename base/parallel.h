// ThreadTeam: the engine's thread pool. A forward pass is one parallel region: every thread runs the same code on its
// own share, and the threads meet at a barrier between steps. Threads split outputs, heads or rows, never a sum, so
// results do not depend on the number of threads.
//
// create() starts the threads, so a failure to start is a Status; the threads live as long as the team
// (docs/decisions/0014). A waiting thread (for a region, at a barrier, at the end of a region) spins for a bounded time
// and then sleeps on a futex. So if another thread lost its core to another process, the team loses that time slice at
// most. A team may also leave out threads that keep losing their core (Oversubscription); these sleep meanwhile.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace ibid {

// Time that the threads of a region waited for late threads, beyond the time in which a thread with a core arrives.
struct WaitTime {
  int64_t ns = 0;
  int64_t thread_ns = 0;  // sum over the waits of duration times number of missing threads

  void add(int64_t waited_ns, int n_missing) {
    ns += waited_ns;
    thread_ns += waited_ns * n_missing;
  }
};

// Oversubscription: chooses the number of threads for a region while other programs use the cores too. A thread that
// loses its core gets it back after 4 to 30 ms, and all others wait for it at the next barrier. Steps take
// microseconds, so one competing program on one core costs most of the throughput of all cores; with fewer threads,
// each on a core of its own, only one core is lost. If some threads keep being late, regions run with that many fewer
// threads, and from time to time with all threads again. A single wait, however long, changes nothing, because virtual
// machines have many. Pure arithmetic: no clock and no threads; not thread-safe.
class Oversubscription {
 public:
  // Total waiting time after which regions get fewer threads; regions without waiting reduce the total.
  static constexpr int64_t kPatienceNs = 40'000'000;
  // Duration of a period with fewer threads: of the first period, and the maximum.
  static constexpr int64_t kShortestNs = 100'000'000;
  static constexpr int64_t kLongestNs = 1'000'000'000;

  // REQUIRES: n_threads >= 1.
  explicit Oversubscription(int n_threads) : n_threads_(n_threads), n_fewer_(n_threads) {}

  // Returns the number of threads for a region that starts at now_ns: 1 to n_threads.
  int n_threads(int64_t now_ns) const { return now_ns < until_ns_ ? n_fewer_ : n_threads_; }

  // Records the duration and the waiting time of a region of n threads. REQUIRES: 1 <= n <= n_threads.
  void record(int n, int64_t begin_ns, int64_t end_ns, WaitTime late);

 private:
  const int n_threads_;
  int n_fewer_;
  int64_t lost_ns_ = 0;    // recent waiting time, reduced by regions without waiting; >= 0
  int64_t until_ns_ = 0;   // regions that start before this time get n_fewer_ threads
  int64_t period_ns_ = 0;  // length of the period that ends at until_ns_
};

// Maximum thread count that a user may request: above the core count of any supported machine.
inline constexpr int kMaxThreads = 1024;

// A half-open range of work.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

// Number of CPUs that the process may use (its affinity mask, and whole CPUs of its control groups' quota); at least 1.
int available_cpus();

// Barrier for `count` threads (sense-reversing). Counter and generation are on separate cache lines.
class Barrier {
 public:
  explicit Barrier(int count);
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Returns when all `count` threads have called wait(). Writes before the call are visible after it.
  void wait() { wait_for(count_); }

  // Returns the lateness since the last take_lateness(), and resets it. REQUIRES: no thread waits.
  WaitTime take_lateness() { return std::exchange(late_, {}); }

  // False if there are more threads than CPUs. Then threads also wait for cores, so their lateness means nothing.
  bool spins() const { return spin_ns_ > 0; }

 private:
  friend class Worker;
  // Waits for `count` threads, which may be fewer than count_: a region may run on a part of the team.
  void wait_for(int count);

  const int count_;
  const int64_t spin_ns_;
  WaitTime late_;  // written only by the first thread to arrive, between two barriers
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<int> sleepers_{0};
};

// One thread's view of the region that it runs.
class Worker {
 public:
  Worker(int index, int count, Barrier& barrier) : index_(index), count_(count), barrier_(barrier) {}

  int index() const { return index_; }
  int count() const { return count_; }
  void barrier() const {
    if (count_ > 1) barrier_.wait_for(count_);
  }

  // Returns this thread's contiguous part of n items, in multiples of `grain` (except the last part).
  Range share(size_t n, size_t grain = 1) const;

 private:
  int index_;
  int count_;
  Barrier& barrier_;
};

// Policy of a team for threads that lose their cores to other programs.
enum class OversubscriptionPolicy {
  kAllThreads,       // waits for the late threads: every region has all threads
  kSkipLateThreads,  // runs regions without the late threads for a while
};

// A fixed number of threads: the caller of run(), and the team's own threads. Runs one region at a time. Calling run()
// from two threads at once, or inside a region of the same team, is a bug of the caller (an Engine has one thread that
// runs passes).
//
// fork() copies none of the team's threads. So in a child process a region runs on the calling thread alone, and no
// call waits for other threads.
class ThreadTeam {
 public:
  // Starts the threads; 0 means available_cpus(). REQUIRES: 0 <= n_threads <= kMaxThreads. Error: kOutOfMemory if a
  // thread cannot be started (memory or a system limit); threads that were already started are joined.
  static Result<std::unique_ptr<ThreadTeam>> create(
      int n_threads, OversubscriptionPolicy when_crowded = OversubscriptionPolicy::kAllThreads);
  // Number of threads that create(n_threads) starts.
  static int size_of(int n_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Calls body(worker) once on each thread and returns when all calls have returned. The body must not throw and must
  // reach the same barriers on every thread. With kSkipLateThreads the region may get fewer threads than size(): see
  // worker.count().
  template <typename Body>
  void run(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_region([](void* context, Worker& worker) { (*static_cast<Plain*>(context))(worker); }, &body);
  }

 private:
  using Region = void (*)(void* context, Worker& worker);

  // One of the team's own threads waits here, on its own cache line, so that a region wakes only the threads it uses.
  struct alignas(64) WorkerSlot {
    std::atomic<uint32_t> n_calls{0};
    std::atomic<bool> asleep{false};
  };

  ThreadTeam(int size, OversubscriptionPolicy when_crowded);
  Status start();
  void run_region(Region region, void* context);
  void run_on(int n_threads, Region region, void* context);
  void call(WorkerSlot& slot);
  void serve(int index);
  void wait_for_leavers();
  bool is_in_its_process() const;

  const int size_;
  const pid_t process_;
  Barrier barrier_;
  const bool skips_late_threads_;
  Oversubscription crowding_;

  // The current region: written before the threads are woken, and read after that. A null region ends the threads.
  int n_threads_ = 0;
  Region region_ = nullptr;
  void* context_ = nullptr;

  std::vector<WorkerSlot> slots_;                  // [size_ - 1]: the seats of threads 1, 2, ...
  alignas(64) std::atomic<uint32_t> n_inside_{0};  // number of own threads that are still in the region
  std::atomic<bool> caller_asleep_{false};
  std::unique_ptr<std::vector<std::thread>> threads_;
};

}  // namespace ibid
