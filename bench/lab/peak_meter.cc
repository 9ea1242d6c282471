#include "bench/lab/peak_meter.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace ibid {

namespace {
constexpr size_t kMostBytes = 1'000'000'000;
}

Result<PeakMeter> PeakMeter::create(int n_threads, size_t largest_bytes) {
  TRY_ASSIGN(const Isa isa, active_isa());
  TRY_ASSIGN(std::unique_ptr<ThreadTeam> team, ThreadTeam::create(n_threads));
  PeakMeter meter(std::move(team), isa);
  const size_t n_lines = (std::clamp(largest_bytes, kCacheLine, kMostBytes) + kCacheLine - 1) / kCacheLine;
  const size_t n_bytes = n_lines * kCacheLine;
  TRY_ASSIGN(meter.arena_, Arena::create(Arena::padded(n_bytes)));
  meter.bytes_ = {meter.arena_.allocate(n_bytes), n_bytes};
  // Memory that was never written is one page of zeros, which is read from the cache.
  std::memset(meter.bytes_.data(), 1, n_bytes);
  return meter;
}

double PeakMeter::read_gbps(size_t bytes) {
  return read_bandwidth_gbps(*team_, bytes_.first(std::clamp(bytes, kCacheLine, bytes_.size())));
}

double PeakMeter::gops(bool int8) {
  return int8 ? int8_peak_gops(*team_, isa_) : float_peak_gops(*team_, isa_);
}

}  // namespace ibid
