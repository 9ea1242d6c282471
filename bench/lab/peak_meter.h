// PeakMeter: what the machine gives at this moment, for as many bytes as a pass reads.
//
// Bandwidth depends on how much is read (caches), and both peaks on clocks and neighbours; so a figure is
// held against a measurement made right beside it, over a working set of its own size. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/arena.h"
#include "base/parallel.h"
#include "base/result.h"
#include "bench/lab/machine_peaks.h"
#include "kernels/ops/dispatch.h"

namespace ibid {

class PeakMeter {
 public:
  // Working sets are cut at `largest_bytes`, and at 1 GB: beyond it all reads come from memory.
  // Errors: those of active_isa() and ThreadTeam::create(); kOutOfMemory.
  static Result<PeakMeter> create(int n_threads, size_t largest_bytes);

  // GB/s of reading `bytes` over and over.
  double read_gbps(size_t bytes);
  // Of the widest int8 or float instruction that the active instruction set uses.
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
