// Measures what this machine can do, in the same process as the figures that are compared with it, because clocks,
// neighbours and caches differ from run to run more than kernels do.
#pragma once

#include <cstddef>
#include <span>

#include "base/parallel.h"
#include "kernels/dispatch.h"

namespace ibid {

// GB/s with which the team reads `bytes` (each thread its part), best of several passes.
double read_bandwidth_gbps(ThreadTeam& team, std::span<const std::byte> bytes);

// Multiply-add operations per second of the team, in units of 1e9 operations (two per multiply-add), for the
// widest float or int8 instruction of the set; 0 for Isa::kRef, which is measured against nothing.
double float_peak_gops(ThreadTeam& team, Isa isa);
double int8_peak_gops(ThreadTeam& team, Isa isa);

}  // namespace ibid
