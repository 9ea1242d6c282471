// Crowding says how many threads a region gets while other programs want the cores too.
//
// A thread that loses its core gets it back after a slice of the system's scheduler or more, 4 to 30 ms, and all
// others wait for it at the next barrier. Steps take microseconds, so one busy neighbour on one core costs most of
// the rate of all cores. Fewer threads, each with a core to itself, cost only what the lost core is worth. So when
// some threads are waited for all the time, regions do without that many, and now and then try again with all of
// them. A single wait, however long, changes nothing, because virtual machines have many.
//
// It computes a number from numbers: it has no clock and no threads, and is not thread-safe.
#pragma once

#include <cstdint>

namespace ibid {

// How long a region waited for its threads, beyond the time in which a thread that has a core arrives.
struct Lateness {
  int64_t ns = 0;
  int64_t thread_ns = 0;  // each wait times the number of threads that were missing

  void add(int64_t waited_ns, int n_missing) {
    ns += waited_ns;
    thread_ns += waited_ns * n_missing;
  }
};

class Crowding {
 public:
  // The time that may be lost to waiting before regions get fewer threads; time without waiting pays it back.
  static constexpr int64_t kPatienceNs = 40'000'000;
  // How long regions then have fewer threads: the first time, and at most.
  static constexpr int64_t kShortestNs = 100'000'000;
  static constexpr int64_t kLongestNs = 1'000'000'000;

  // REQUIRES: n_threads >= 1.
  explicit Crowding(int n_threads) : n_threads_(n_threads), n_fewer_(n_threads) {}

  // How many threads a region that starts now gets: 1 to n_threads.
  int n_threads(int64_t now_ns) const { return now_ns < until_ns_ ? n_fewer_ : n_threads_; }

  // Records how a region of n threads went. REQUIRES: 1 <= n <= n_threads.
  void record(int n, int64_t begin_ns, int64_t end_ns, Lateness late);

 private:
  const int n_threads_;
  int n_fewer_;
  int64_t lost_ns_ = 0;    // to waiting, of late; >= 0
  int64_t until_ns_ = 0;   // regions that start before have n_fewer_ threads
  int64_t period_ns_ = 0;  // of which this was the end
};

}  // namespace ibid
