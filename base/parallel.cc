#include "base/parallel.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <optional>
#include <string>
#include <system_error>

#include "base/check.h"
#include "base/control_group.h"
#include "base/thread_error.h"

namespace ibid {

namespace {

// Longest spin at a barrier. A thread that has a core arrives within this time. A thread that lost its core does not,
// and may need the core on which this thread spins.
constexpr int64_t kSpinNs = 50'000;

// Longest spin between regions. While tokens are decoded, the next region starts within this time, after a token is
// sampled; a region that has not started by then will not start soon.
constexpr int64_t kSpinBetweenRegionsNs = 200'000;

// Number of pause instructions between two reads of the clock (one read costs as much as one pause).
constexpr int kPausesPerLook = 32;

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Spins until is_so() is true, for about `spin_ns` at most. Returns the last value of is_so().
template <typename Condition>
bool spin_until(const Condition& is_so, int64_t spin_ns) {
  if (spin_ns == 0) return is_so();
  int64_t deadline_ns = 0;
  for (;;) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (is_so()) return true;
      pause_cpu();
    }
    const int64_t now = now_ns();
    if (deadline_ns == 0) deadline_ns = now + spin_ns;
    if (now >= deadline_ns) return false;
  }
}

}  // namespace

namespace {

// Whole CPUs of the control groups' quota: threads beyond this number would be stopped for a part of each period.
int quota_cpus() {
  const std::optional<double> quota = control_group_limits().n_cpus;
  return quota ? static_cast<int>(std::clamp(std::floor(*quota), 1.0, double{kMaxThreads})) : kMaxThreads;
}

}  // namespace

int available_cpus() {
  static const int quota = quota_cpus();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // sched_getaffinity() fails if there are more CPUs than fit into a cpu_set_t.
  const int n = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                    ? CPU_COUNT(&allowed)
                    : static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(n, 1, quota);
}

// With more threads than CPUs threads do not spin, because a spinning thread may occupy the core that the awaited
// thread needs.
Barrier::Barrier(int count) : count_(count), spin_ns_(count <= available_cpus() ? kSpinNs : 0) {}

void Barrier::wait_for(int count) {
  // Read before arriving: the generation cannot change until this thread has arrived.
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  const int n_before = arrived_.fetch_add(1, std::memory_order_acq_rel);
  if (n_before + 1 == count) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1);
    if (sleepers_.load() > 0) generation_.notify_all();
    return;
  }
  if (spin_until([&] { return generation_.load(std::memory_order_acquire) != generation; }, spin_ns_)) return;
  const int n_missing = count - arrived_.load(std::memory_order_relaxed);
  const int64_t start_ns = now_ns();
  // The accesses of this thread and of the last thread to arrive are sequentially consistent. Either the last thread
  // sees that this thread sleeps, or this thread sees the new generation and does not sleep.
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
  const size_t extra = pieces % count;  // the first `extra` threads take one more piece
  const size_t first = index * each + std::min(index, extra);
  const size_t last = first + each + (index < extra ? 1 : 0);
  return {std::min(n, first * grain), std::min(n, last * grain)};
}

void ThreadTeam::run_region(Region region, void* context) {
  if (!skips_late_threads_) return run_on(size_, region, context);
  struct Timed {
    Region region;
    void* context;
    int64_t begin_ns = 0, end_ns = 0;  // begin and end of thread 0's part of the region
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
  // Add the lateness at the start and at the end of the region, which no barrier measures.
  WaitTime late = barrier_.take_lateness();
  late.add(timed.begin_ns - begin_ns + end_ns - timed.end_ns, 1);
  crowding_.record(n_threads, begin_ns, end_ns, late);
}

// --- the threads

int ThreadTeam::size_of(int n_threads) {
  CHECK(n_threads >= 0 && n_threads <= kMaxThreads) << n_threads;
  return n_threads == 0 ? available_cpus() : n_threads;
}

ThreadTeam::ThreadTeam(int size, OversubscriptionPolicy when_crowded)
    : size_(size),
      process_(getpid()),
      barrier_(size),
      skips_late_threads_(when_crowded == OversubscriptionPolicy::kSkipLateThreads && barrier_.spins()),
      crowding_(size),
      slots_(static_cast<size_t>(size) - 1),
      threads_(std::make_unique<std::vector<std::thread>>()) {}

Result<std::unique_ptr<ThreadTeam>> ThreadTeam::create(int n_threads, OversubscriptionPolicy when_crowded) try {
  std::unique_ptr<ThreadTeam> team(new ThreadTeam(size_of(n_threads), when_crowded));
  TRY(team->start());
  return team;
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ThreadTeam::start() {
  threads_->reserve(slots_.size());
  try {
    for (int i = 1; i < size_; ++i) threads_->emplace_back([this, i] { serve(i); });
  } catch (const std::system_error& error) {
    return no_thread("thread " + std::to_string(threads_->size() + 2) + " of " + std::to_string(size_), error.code());
  }
  return {};
}

ThreadTeam::~ThreadTeam() {
  if (!is_in_its_process()) {
    (void)threads_.release();  // a child of fork() has no such threads, so their objects cannot be joined or destroyed
    return;
  }
  region_ = nullptr;
  for (size_t i = 0; i < threads_->size(); ++i) call(slots_[i]);
  for (std::thread& thread : *threads_) thread.join();
}

bool ThreadTeam::is_in_its_process() const { return getpid() == process_; }

void ThreadTeam::run_on(int n_threads, Region region, void* context) {
  if (n_threads == 1 || !is_in_its_process()) {
    Worker worker(0, 1, barrier_);
    region(context, worker);
    return;
  }
  n_threads_ = n_threads;
  region_ = region;
  context_ = context;
  const auto n_others = static_cast<size_t>(n_threads) - 1;
  n_inside_.store(static_cast<uint32_t>(n_others), std::memory_order_relaxed);
  for (size_t i = 0; i < n_others; ++i) call(slots_[i]);
  Worker worker(0, n_threads, barrier_);
  region(context, worker);
  wait_for_leavers();
}

// The accesses to n_calls and `asleep` are sequentially consistent: either the caller sees that the thread sleeps, or
// the thread sees the call and does not sleep. The same holds for n_inside_ and caller_asleep_.
void ThreadTeam::call(WorkerSlot& slot) {
  slot.n_calls.fetch_add(1);
  if (slot.asleep.load()) slot.n_calls.notify_one();
}

void ThreadTeam::serve(int index) {
  WorkerSlot& slot = slots_[static_cast<size_t>(index) - 1];
  const int64_t spin_ns = barrier_.spins() ? kSpinBetweenRegionsNs : 0;
  for (uint32_t n_served = 0;; ++n_served) {
    if (!spin_until([&] { return slot.n_calls.load(std::memory_order_acquire) != n_served; }, spin_ns)) {
      slot.asleep.store(true);
      while (slot.n_calls.load() == n_served) slot.n_calls.wait(n_served);
      slot.asleep.store(false, std::memory_order_relaxed);
    }
    if (region_ == nullptr) return;
    Worker worker(index, n_threads_, barrier_);
    region_(context_, worker);
    if (n_inside_.fetch_sub(1) == 1 && caller_asleep_.load()) n_inside_.notify_one();
  }
}

void ThreadTeam::wait_for_leavers() {
  const int64_t spin_ns = barrier_.spins() ? kSpinNs : 0;
  if (spin_until([&] { return n_inside_.load(std::memory_order_acquire) == 0; }, spin_ns)) return;
  caller_asleep_.store(true);
  for (uint32_t n = n_inside_.load(); n != 0; n = n_inside_.load()) n_inside_.wait(n);
  caller_asleep_.store(false, std::memory_order_relaxed);
}

void Oversubscription::record(int n, int64_t begin_ns, int64_t end_ns, WaitTime late) {
  DCHECK(n >= 1 && n <= n_threads_);
  if (n == 1) return;
  const int64_t wall_ns = end_ns - begin_ns;
  const int64_t late_ns = std::min(late.ns, wall_ns);
  // Mean number of missing threads, weighted by waiting time.
  const int64_t n_missing = late.ns == 0 ? 1 : std::clamp<int64_t>((late.thread_ns + late.ns / 2) / late.ns, 1, n - 1);
  // The missing threads do n_missing / n of the region's work, but the other threads wait late_ns for them. The loss is
  // late_ns minus wall_ns * n_missing / n, scaled by n / n_missing. It is negative if the missing threads are slow but
  // do more work than they cost.
  const int64_t lost_ns = late_ns * n / n_missing - wall_ns;
  // Ignore gains of a region with fewer threads: they do not show how the threads that were left out would perform.
  if (lost_ns < 0 && n < n_threads_) return;
  // The loss of one region is capped, so that one region alone cannot reach the limit, however long it waited.
  lost_ns_ = std::max<int64_t>(0, lost_ns_ + std::min(lost_ns, kPatienceNs / 2));
  if (lost_ns_ < kPatienceNs) return;

  // If this period ends soon after a trial with all threads, the competing program is still running: lengthen the
  // period.
  const bool again = end_ns - until_ns_ < period_ns_;
  period_ns_ = again ? std::min(4 * period_ns_, kLongestNs) : kShortestNs;
  until_ns_ = end_ns + period_ns_;
  n_fewer_ = n - static_cast<int>(n_missing);
  lost_ns_ = kPatienceNs / 2;  // half of the limit, so that the next trial reaches the limit sooner and loses less time
}

}  // namespace ibid
