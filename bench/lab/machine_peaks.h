// Measures the peak bandwidth and operation rate of the machine, in the same process as the figures compared with them,
// because clock rates, other processes and caches differ from run to run more than kernels do.
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

// One way of reading memory: `read` returns the xor of the 8-byte words of all whole cache lines, each read once, in
// `streams` interleaved ranges, and prefetches each line `ahead` bytes in advance (0: no prefetch).
struct ReadWay {
  size_t streams;
  size_t ahead;
  uint64_t (*read)(std::span<const std::byte> bytes);
};
std::span<const ReadWay> read_ways();

// GB/s at which the thread team reads `bytes` (each thread its part): the best of several passes with the fastest of
// read_ways() at this moment. With a single way, kernels could exceed the bound on machines that suit another way.
double read_bandwidth_gbps(ThreadTeam& team, std::span<const std::byte> bytes);

// Multiply-add operations per second of the team, in units of 1e9 operations (two per multiply-add), for the
// widest float or int8 instruction of the set; 0 for Isa::kRef, which has no peak.
double float_peak_gops(ThreadTeam& team, Isa isa);
double int8_peak_gops(ThreadTeam& team, Isa isa);

// PeakMeter: current peaks of the machine, for as many bytes as a pass reads.
//
// Bandwidth depends on the working set (caches), and both peaks on clock rates and other processes; so a figure is
// compared with a peak measured right next to it, over a working set of the same size. Not thread-safe.
class PeakMeter {
 public:
  // Working sets are limited to `largest_bytes`, and to 1 GB: above that all reads come from memory.
  // Errors: those of active_isa() and ThreadTeam::create(); kOutOfMemory.
  static Result<PeakMeter> create(int n_threads, size_t largest_bytes);

  // GB/s of reading `bytes` repeatedly.
  double read_gbps(size_t bytes);
  // The rate of the widest int8 or float instruction that the active instruction set uses.
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
