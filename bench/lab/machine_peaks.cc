#include "bench/lab/machine_peaks.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/arena.h"

#if defined(__x86_64__)
#endif

namespace ibid {

namespace {

using Lanes [[gnu::vector_size(16), gnu::may_alias]] = uint64_t;  // every 64-bit machine has such registers

constexpr int kPasses = 5;
constexpr int kAccumulators = 12;  // two units with a latency of 4 or 5 need ten accumulators
constexpr int kSteps = 400'000;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the seconds from the first thread's start of `work` to the last thread's end, the best of `passes` passes.
// The time of a single thread would not suffice: a thread that lost its core may leave the barrier late, after the
// others have worked.
template <typename Work>
double best_seconds(ThreadTeam& team, int passes, Work work) {
  struct alignas(kCacheLine) Times {
    double begin, end;
  };
  std::vector<Times> times(static_cast<size_t>(team.size()));
  double best = 1e30;
  team.run([&](Worker& worker) {
    Times& own = times[static_cast<size_t>(worker.index())];
    for (int pass = 0; pass < passes; ++pass) {
      worker.barrier();
      own.begin = seconds_now();
      work(worker);
      own.end = seconds_now();
      worker.barrier();
      if (worker.index() != 0) continue;
      Times all = own;
      for (const Times& one : times) all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
      best = std::min(best, all.end - all.begin);
    }
  });
  return best;
}

#if defined(__x86_64__)
// One multiply-add on each of kAccumulators registers, kSteps times; the empty asm keeps every step. The accumulators
// are separate variables, because gcc would keep an array in memory.
#define IBID_PEAK_STEP(a)     \
  a = IBID_PEAK_OPERATION(a); \
  asm volatile("" : "+v"(a))
#define IBID_PEAK_LOOP(Vector, zero)                                                             \
  Vector a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero, a5 = zero, a6 = zero, a7 = zero; \
  Vector a8 = zero, a9 = zero, a10 = zero, a11 = zero;                                           \
  for (int i = 0; i < kSteps; ++i) {                                                             \
    IBID_PEAK_STEP(a0);                                                                          \
    IBID_PEAK_STEP(a1);                                                                          \
    IBID_PEAK_STEP(a2);                                                                          \
    IBID_PEAK_STEP(a3);                                                                          \
    IBID_PEAK_STEP(a4);                                                                          \
    IBID_PEAK_STEP(a5);                                                                          \
    IBID_PEAK_STEP(a6);                                                                          \
    IBID_PEAK_STEP(a7);                                                                          \
    IBID_PEAK_STEP(a8);                                                                          \
    IBID_PEAK_STEP(a9);                                                                          \
    IBID_PEAK_STEP(a10);                                                                         \
    IBID_PEAK_STEP(a11);                                                                         \
  }

[[gnu::target("avx512f")]] void float_loop_avx512() {
  const __m512 x = _mm512_set1_ps(0.5f);
#define IBID_PEAK_OPERATION(a) _mm512_fmadd_ps(a, x, x)
  IBID_PEAK_LOOP(__m512, _mm512_setzero_ps())
#undef IBID_PEAK_OPERATION
}

[[gnu::target("avx512f,avx512vnni")]] void int8_loop_avx512() {
  const __m512i x = _mm512_set1_epi8(1);
#define IBID_PEAK_OPERATION(a) _mm512_dpbusd_epi32(a, x, x)
  IBID_PEAK_LOOP(__m512i, _mm512_setzero_si512())
#undef IBID_PEAK_OPERATION
}

[[gnu::target("avx2,fma")]] void float_loop_avx2() {
  const __m256 x = _mm256_set1_ps(0.5f);
#define IBID_PEAK_OPERATION(a) _mm256_fmadd_ps(a, x, x)
  IBID_PEAK_LOOP(__m256, _mm256_setzero_ps())
#undef IBID_PEAK_OPERATION
}

[[gnu::target("avxvnni")]] void int8_loop_avxvnni() {
  const __m256i x = _mm256_set1_epi8(1);
#define IBID_PEAK_OPERATION(a) _mm256_dpbusd_avx_epi32(a, x, x)
  IBID_PEAK_LOOP(__m256i, _mm256_setzero_si256())
#undef IBID_PEAK_OPERATION
}

// Without VNNI a product of four int8 pairs takes three instructions.
[[gnu::target("avx2")]] void int8_loop_avx2() {
  const __m256i x = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
#define IBID_PEAK_OPERATION(a) _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(a, x), ones))
  IBID_PEAK_LOOP(__m256i, _mm256_setzero_si256())
#undef IBID_PEAK_OPERATION
}

#undef IBID_PEAK_LOOP
#undef IBID_PEAK_STEP

double peak_gops(ThreadTeam& team, void (*loop)(), double operations_per_step) {
  const double seconds = best_seconds(team, kPasses, [loop](const Worker&) { loop(); });
  return operations_per_step * kAccumulators * kSteps * team.size() / seconds / 1e9;
}
#endif

constexpr size_t kPieces = kCacheLine / sizeof(Lanes);

template <size_t kAhead>
[[gnu::always_inline]] inline void read_line(const std::byte* line, Lanes (&sum)[kPieces]) {
  if (kAhead > 0) __builtin_prefetch(line + kAhead, 0, 2);
  const auto* at = reinterpret_cast<const Lanes*>(line);
#pragma GCC unroll 4
  for (size_t i = 0; i < kPieces; ++i) sum[i] ^= at[i];
}

// Reads whole cache lines in kStreams interleaved ranges; prefetches each line kAhead bytes in advance to the L2 cache.
template <size_t kStreams, size_t kAhead>
uint64_t read_streams(std::span<const std::byte> bytes) {
  const size_t lines = bytes.size() / kCacheLine, each = lines / kStreams;
  Lanes sum[kPieces] = {};
  for (size_t i = 0; i < each; ++i) {
#pragma GCC unroll 8
    for (size_t s = 0; s < kStreams; ++s) read_line<kAhead>(bytes.data() + (s * each + i) * kCacheLine, sum);
  }
  for (size_t i = kStreams * each; i < lines; ++i) read_line<kAhead>(bytes.data() + i * kCacheLine, sum);
  for (size_t i = 1; i < kPieces; ++i) sum[0] ^= sum[i];
  return sum[0][0] ^ sum[0][1];
}

// All methods are tried, because the fastest one depends on the machine: hardware prefetchers follow one stream or
// several. Lines that are prefetched too early are evicted before use; for lines that are prefetched too late the
// reader waits.
constexpr ReadWay kReadWays[] = {
    {1, 0, read_streams<1, 0>},         {1, 2048, read_streams<1, 2048>}, {1, 6144, read_streams<1, 6144>},
    {1, 12288, read_streams<1, 12288>}, {2, 0, read_streams<2, 0>},       {2, 2048, read_streams<2, 2048>},
    {2, 6144, read_streams<2, 6144>},   {4, 0, read_streams<4, 0>},       {4, 2048, read_streams<4, 2048>},
    {4, 6144, read_streams<4, 6144>},   {8, 0, read_streams<8, 0>},       {8, 2048, read_streams<8, 2048>},
};

}  // namespace

std::span<const ReadWay> read_ways() { return kReadWays; }

double read_bandwidth_gbps(ThreadTeam& team, std::span<const std::byte> bytes) {
  const size_t lines = bytes.size() / kCacheLine;
  const auto seconds_of = [&](const ReadWay& way, int passes) {
    return best_seconds(team, passes, [&](const Worker& worker) {
      const Range share = worker.share(lines);
      const uint64_t sum = way.read(bytes.subspan(share.begin * kCacheLine, share.size() * kCacheLine));
      asm volatile("" : : "r"(sum));  // uses the sum, so that the compiler keeps the reads
    });
  };
  const ReadWay* fastest = kReadWays;
  double best = 1e30;
  for (const ReadWay& way : kReadWays) {
    const double seconds = seconds_of(way, 2);
    if (seconds < best) fastest = &way;
    best = std::min(best, seconds);
  }
  best = std::min(best, seconds_of(*fastest, kPasses));
  return static_cast<double>(lines * kCacheLine) / best / 1e9;
}

#if defined(__x86_64__)

double float_peak_gops(ThreadTeam& team, Isa isa) {
  if (isa >= Isa::kAvx512) return peak_gops(team, float_loop_avx512, 2 * 16);
  return isa >= Isa::kAvx2 ? peak_gops(team, float_loop_avx2, 2 * 8) : 0;
}

// With AMX this is still the peak of vector instructions. The peak of tile instructions is eight times as high, but a
// format with a scale per 32 columns cannot reach it.
double int8_peak_gops(ThreadTeam& team, Isa isa) {
  if (isa >= Isa::kAvx512) return peak_gops(team, int8_loop_avx512, 2 * 64);
  if (isa == Isa::kAvxVnni) return peak_gops(team, int8_loop_avxvnni, 2 * 32);
  return isa == Isa::kAvx2 ? peak_gops(team, int8_loop_avx2, 2 * 32) : 0;
}

#else

double float_peak_gops(ThreadTeam&, Isa) { return 0; }
double int8_peak_gops(ThreadTeam&, Isa) { return 0; }

#endif

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
  // Write to the memory first: unwritten memory maps to one page of zeros, which would be read from the cache.
  std::memset(meter.bytes_.data(), 1, n_bytes);
  return meter;
}

double PeakMeter::read_gbps(size_t bytes) {
  return read_bandwidth_gbps(*team_, bytes_.first(std::clamp(bytes, kCacheLine, bytes_.size())));
}

double PeakMeter::gops(bool int8) { return int8 ? int8_peak_gops(*team_, isa_) : float_peak_gops(*team_, isa_); }

}  // namespace ibid
