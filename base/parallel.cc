#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"

#ifdef IBID_OPENMP
#include <omp.h>
#endif

namespace ibid {

namespace {

// A peer that is merely late arrives within this; one that lost its core does not, and then every further
// spin takes time from it.
constexpr int64_t kSpinNs = 50'000;

// Pauses between two looks at the clock (which costs as much as one of them).
constexpr int kPausesPerLook = 32;

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Spins until `word` is no longer `old`, for about `spin_ns`. Returns whether it changed.
bool spin_while_equal(const std::atomic<uint32_t>& word, uint32_t old, int64_t spin_ns) {
  if (spin_ns == 0) return word.load(std::memory_order_acquire) != old;
  int64_t deadline_ns = 0;
  for (;;) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (word.load(std::memory_order_acquire) != old) return true;
      pause_cpu();
    }
    const int64_t now = now_ns();
    if (deadline_ns == 0) deadline_ns = now + spin_ns;
    if (now >= deadline_ns) return false;
  }
}

}  // namespace

int available_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  // More CPUs than a cpu_set_t holds.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// With more threads than CPUs, the peer that is waited for may be the one that a spin keeps from running.
Barrier::Barrier(int count) : count_(count), spin_ns_(count <= available_cpus() ? kSpinNs : 0) {}

void Barrier::wait_for(int count) {
  // The generation cannot change before this thread has arrived.
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  const int n_before = arrived_.fetch_add(1, std::memory_order_acq_rel);
  if (n_before + 1 == count) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1);
    if (sleepers_.load() > 0) generation_.notify_all();
    return;
  }
  if (spin_while_equal(generation_, generation, spin_ns_)) return;
  const int n_missing = count - arrived_.load(std::memory_order_relaxed);
  const int64_t start_ns = now_ns();
  // Sequentially consistent on both sides: either the last thread sees this sleeper, or this one sees the
  // new generation and does not sleep.
  sleepers_.fetch_add(1);
  while (generation_.load() == generation) generation_.wait(generation);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  if (n_before == 0) late_.add(now_ns() - start_ns, n_missing);
}

Range Worker::share(size_t n, size_t grain) const {
  DCHECK(grain > 0);
  const size_t pieces = n / grain + (n % grain != 0 ? 1 : 0);
  const auto index = static_cast<size_t>(index_);
  const auto count = static_cast<size_t>(count_);
  const size_t each = pieces / count;
  const size_t extra = pieces % count;  // the first `extra` threads take one piece more
  const size_t first = index * each + std::min(index, extra);
  const size_t last = first + each + (index < extra ? 1 : 0);
  return {std::min(n, first * grain), std::min(n, last * grain)};
}

void ThreadTeam::run_region(Region region, void* context) {
  if (!gives_way_) return run_on(size_, region, context);
  struct Timed {
    Region region;
    void* context;
    int64_t begin_ns = 0, end_ns = 0;  // of thread 0's part
    static void run(void* timed, Worker& worker) {
      auto& t = *static_cast<Timed*>(timed);
      if (worker.index() == 0) t.begin_ns = now_ns();
      t.region(t.context, worker);
      if (worker.index() == 0) t.end_ns = now_ns();
    }
  } timed{region, context};
  const int64_t begin_ns = now_ns();
  const int n_threads = crowding_.n_threads(begin_ns);
  run_on(n_threads, &Timed::run, &timed);
  const int64_t end_ns = now_ns();
  // Threads are late when they come and when they go, too.
  Lateness late = barrier_.take_lateness();
  late.add(timed.begin_ns - begin_ns + end_ns - timed.end_ns, 1);
  crowding_.record(n_threads, begin_ns, end_ns, late);
}

#ifdef IBID_OPENMP

struct ThreadTeam::StandardThreads {};

ThreadTeam::ThreadTeam(int n_threads, WhenCrowded when_crowded)
    : size_(n_threads == 0 ? available_cpus() : n_threads),
      barrier_(size_),
      gives_way_(when_crowded == WhenCrowded::kGiveWay && barrier_.spins()),
      crowding_(size_) {
  CHECK(n_threads >= 0 && n_threads <= kMaxThreads) << n_threads;
}

ThreadTeam::~ThreadTeam() = default;

void ThreadTeam::run_on(int n_threads, Region region, void* context) {
  if (n_threads == 1) {  // no other thread: not worth a fork
    Worker worker(0, 1, barrier_);
    region(context, worker);
    return;
  }
#pragma omp parallel num_threads(n_threads)
  {
    Worker worker(omp_get_thread_num(), omp_get_num_threads(), barrier_);
    region(context, worker);
  }
}

#else

// Threads 1..n-1; thread 0 is the caller of run(). All meet at `gate` when a region starts and when it ends.
struct ThreadTeam::StandardThreads {
  explicit StandardThreads(int count) : gate(count) {}

  void loop(int index, Barrier& barrier) {
    for (;;) {
      gate.wait();
      if (region == nullptr) return;
      take_part(index, barrier);
      gate.wait();
    }
  }

  void take_part(int index, Barrier& barrier) const {
    if (index >= n_threads) return;
    Worker worker(index, n_threads, barrier);
    region(context, worker);
  }

  Barrier gate;
  // Written before the gate, read behind it. No region: the end.
  int n_threads = 0;
  Region region = nullptr;
  void* context = nullptr;
  std::vector<std::thread> threads;
};

ThreadTeam::ThreadTeam(int n_threads, WhenCrowded when_crowded)
    : size_(n_threads == 0 ? available_cpus() : n_threads),
      barrier_(size_),
      gives_way_(when_crowded == WhenCrowded::kGiveWay && barrier_.spins()),
      crowding_(size_),
      threads_(std::make_unique<StandardThreads>(size_)) {
  CHECK(n_threads >= 0 && n_threads <= kMaxThreads) << n_threads;
  for (int i = 1; i < size_; ++i) {
    threads_->threads.emplace_back([this, i] { threads_->loop(i, barrier_); });
  }
}

ThreadTeam::~ThreadTeam() {
  threads_->region = nullptr;
  threads_->gate.wait();
  for (std::thread& thread : threads_->threads) thread.join();
}

void ThreadTeam::run_on(int n_threads, Region region, void* context) {
  threads_->n_threads = n_threads;
  threads_->region = region;
  threads_->context = context;
  threads_->gate.wait();
  threads_->take_part(0, barrier_);
  threads_->gate.wait();
}

#endif

}  // namespace ibid
