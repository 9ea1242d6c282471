// Measures what this machine can do, in the same process as the figures that are compared with it, because clocks,
// neighbours and caches differ from run to run more than kernels do.
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

// One way of reading memory: the exclusive or of the 8-byte words of all whole cache lines of `bytes`, which it reads
// once each, in `streams` stretches side by side, asking for each line `ahead` bytes before its turn (0: not at all).
struct ReadWay {
  size_t streams;
  size_t ahead;
  uint64_t (*read)(std::span<const std::byte> bytes);
};
std::span<const ReadWay> read_ways();

// GB/s with which the team reads `bytes` (each thread its part): the best of several passes in the fastest of
// read_ways(), tried here and now. A single way would be a bound that kernels pass wherever another suits the machine.
double read_bandwidth_gbps(ThreadTeam& team, std::span<const std::byte> bytes);

// Multiply-add operations per second of the team, in units of 1e9 operations (two per multiply-add), for the
// widest float or int8 instruction of the set; 0 for Isa::kRef, which is measured against nothing.
double float_peak_gops(ThreadTeam& team, Isa isa);
double int8_peak_gops(ThreadTeam& team, Isa isa);

// PeakMeter: what the machine gives at this moment, for as many bytes as a pass reads.
//
// Bandwidth depends on how much is read (caches), and both peaks on clocks and neighbours; so a figure is
// held against a measurement made right beside it, over a working set of its own size. Not thread-safe.
class PeakMeter {
 public:
  // Working sets are cut at `largest_bytes`, and at 1 GB: beyond it all reads come from memory.
  // Errors: those of active_isa() and ThreadTeam::create(); kOutOfMemory.
  static Result<PeakMeter> create(int n_threads, size_t largest_bytes);

  // GB/s of reading `bytes` over and over.
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
