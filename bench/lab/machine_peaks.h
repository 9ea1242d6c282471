// Measures the peak bandwidth and operation rate of the machine in the same process as the figures that are compared
// with them: clock rates, other processes and caches differ more from run to run than kernels do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/arena.h"
#include "base/parallel.h"
#include "base/result.h"
#include "kernels/ops/dispatch.h"

namespace ibid {

// A method of reading memory. `read` returns the xor of the 8-byte words of all whole cache lines, each read once, in
// `streams` interleaved ranges; it prefetches each line `ahead` bytes in advance (0: no prefetch).
struct ReadWay {
  size_t streams;
  size_t ahead;
  uint64_t (*read)(std::span<const std::byte> bytes);
};
std::span<const ReadWay> read_ways();

// Returns the GB/s at which the thread team reads `bytes` (each thread its part): the best of several passes with the
// method of read_ways() that is the fastest at this moment. With only one method, kernels could exceed the result on
// machines that suit another method.
double read_bandwidth_gbps(ThreadTeam& team, std::span<const std::byte> bytes);

// Return the team's operations per second in units of 1e9 (two per multiply-add), for the widest float or int8
// instruction of the set; 0 for Isa::kRef, which has no peak.
double float_peak_gops(ThreadTeam& team, Isa isa);
double int8_peak_gops(ThreadTeam& team, Isa isa);

// PeakMeter: current peaks of the machine, for as many bytes as a pass reads.
//
// Bandwidth depends on the size of the memory that is read (caches), and both peaks depend on clock rates and other
// processes. So a figure is compared with a peak that is measured right after it, reading as many bytes. Not
// thread-safe.
class PeakMeter {
 public:
  // Measures over at most `largest_bytes` bytes, and over at most 1 GB, because the caches do not matter for larger
  // sizes. Errors: those of active_isa() and ThreadTeam::create(); kOutOfMemory.
  static Result<PeakMeter> create(int n_threads, size_t largest_bytes);

  // Returns the GB/s of reading `bytes` bytes repeatedly.
  double read_gbps(size_t bytes);
  // Returns the rate of the widest int8 or float instruction that the active instruction set uses.
  double gops(bool int8);

  size_t bytes() const { return bytes_.size(); }

 private:
  PeakMeter(std::unique_ptr<ThreadTeam> team, Isa isa) : team_(std::move(team)), isa_(isa) {}

  std::unique_ptr<ThreadTeam> team_;
  Isa isa_;
  Arena arena_;
  std::span<std::byte> bytes_;
};

}  // namespace ibid
