#include "base/crowding.h"

#include <algorithm>

#include "base/check.h"

namespace ibid {

void Crowding::record(int n, int64_t begin_ns, int64_t end_ns, Lateness late) {
  DCHECK(n >= 1 && n <= n_threads_);
  if (n == 1) return;
  const int64_t wall_ns = end_ns - begin_ns;
  const int64_t late_ns = std::min(late.ns, wall_ns);
  // How many were missing, the longer waits counting more.
  const int64_t n_missing =
      late.ns == 0 ? 1 : std::clamp<int64_t>((late.thread_ns + late.ns / 2) / late.ns, 1, n - 1);
  // The missing threads are worth their part of the region, n_missing / n, and cost the time that the region waited
  // for them. The difference, in the time of a region without them, is what was lost. It is below 0 if they are
  // slow and still worth more than they cost.
  const int64_t lost_ns = late_ns * n / n_missing - wall_ns;
  // A region with fewer threads says nothing about the threads that it does without.
  if (lost_ns < 0 && n < n_threads_) return;
  // One region alone is no reason yet, however long it waited.
  lost_ns_ = std::max<int64_t>(0, lost_ns_ + std::min(lost_ns, kPatienceNs / 2));
  if (lost_ns_ < kPatienceNs) return;

  // True soon after a trial: then the program that has the core is still there.
  const bool again = end_ns - until_ns_ < period_ns_;
  period_ns_ = again ? std::min(4 * period_ns_, kLongestNs) : kShortestNs;
  until_ns_ = end_ns + period_ns_;
  n_fewer_ = n - static_cast<int>(n_missing);
  lost_ns_ = kPatienceNs / 2;  // the next trial may lose less
}

}  // namespace ibid
