// Measures what this machine can do, in the same process as the figures that are compared with it, because clocks,
// neighbours and caches differ from run to run more than kernels do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/parallel.h"
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

}  // namespace ibid
