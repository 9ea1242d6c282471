#include "bench/lab/machine_peaks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ibid {

namespace {

using Lanes [[gnu::vector_size(16), gnu::may_alias]] = uint64_t;  // every 64-bit machine has such registers

constexpr int kPasses = 5;
constexpr int kAccumulators = 12;  // two units, latency 4 or 5: ten would do
constexpr int kSteps = 400'000;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds that the slowest thread needs for `work`, best of kPasses.
template <typename Work>
double best_seconds(ThreadTeam& team, Work work) {
  double best = 1e30;
  team.run([&](Worker& worker) {
    for (int pass = 0; pass < kPasses; ++pass) {
      worker.barrier();
      const double start = seconds_now();
      work(worker);
      worker.barrier();
      if (worker.index() == 0) best = std::min(best, seconds_now() - start);
    }
  });
  return best;
}

#if defined(__x86_64__)
// One multiply-add on each of kAccumulators registers, kSteps times; the empty asm keeps every step. Named,
// because gcc keeps an array of them in memory.
#define IBID_PEAK_STEP(a)     \
  a = IBID_PEAK_OPERATION(a); \
  asm volatile("" : "+v"(a));
#define IBID_PEAK_LOOP(Vector, zero)                                                                     \
  Vector a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero, a5 = zero, a6 = zero, a7 = zero;         \
  Vector a8 = zero, a9 = zero, a10 = zero, a11 = zero;                                                   \
  for (int i = 0; i < kSteps; ++i) {                                                                     \
    IBID_PEAK_STEP(a0)                                                                                   \
    IBID_PEAK_STEP(a1)                                                                                   \
    IBID_PEAK_STEP(a2) IBID_PEAK_STEP(a3) IBID_PEAK_STEP(a4) IBID_PEAK_STEP(a5) IBID_PEAK_STEP(a6)       \
        IBID_PEAK_STEP(a7) IBID_PEAK_STEP(a8) IBID_PEAK_STEP(a9) IBID_PEAK_STEP(a10) IBID_PEAK_STEP(a11) \
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

// Without VNNI four int8 products are three instructions.
[[gnu::target("avx2")]] void int8_loop_avx2() {
  const __m256i x = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
#define IBID_PEAK_OPERATION(a) _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(a, x), ones))
  IBID_PEAK_LOOP(__m256i, _mm256_setzero_si256())
#undef IBID_PEAK_OPERATION
}

#undef IBID_PEAK_LOOP
#undef IBID_PEAK_STEP

double peak_gops(ThreadTeam& team, void (*loop)(), double operations_per_step) {
  const double seconds = best_seconds(team, [loop](const Worker&) { loop(); });
  return operations_per_step * kAccumulators * kSteps * team.size() / seconds / 1e9;
}
#endif

}  // namespace

// Bytes between what is read and what is asked for, into the second-level cache: as far as the linear kernels ask.
constexpr size_t kReadAhead = 12288;

double read_bandwidth_gbps(ThreadTeam& team, std::span<const std::byte> bytes) {
  const size_t lines = bytes.size() / 64;
  const double seconds = best_seconds(team, [&](const Worker& worker) {
    const Range share = worker.share(lines);
    Lanes sum[4] = {};
    const auto* at = reinterpret_cast<const Lanes*>(bytes.data()) + share.begin * 4;
    for (size_t line = 0; line < share.size(); ++line, at += 4) {
      // Half of the rate is missed by what the hardware alone foresees.
      __builtin_prefetch(reinterpret_cast<const std::byte*>(at) + kReadAhead, 0, 2);
      for (int i = 0; i < 4; ++i) sum[i] ^= at[i];
    }
    // What nobody uses would not be read.
    for (const Lanes& lanes : sum) asm volatile("" : : "m"(lanes));
  });
  return static_cast<double>(lines * 64) / seconds / 1e9;
}

#if defined(__x86_64__)

double float_peak_gops(ThreadTeam& team, Isa isa) {
  if (isa >= Isa::kAvx512) return peak_gops(team, float_loop_avx512, 2 * 16);
  return isa >= Isa::kAvx2 ? peak_gops(team, float_loop_avx2, 2 * 8) : 0;
}

// With tiles too, the vectors' peak: that of tiles, eight times as high, is out of reach of any format with a scale
// per 32 columns.
double int8_peak_gops(ThreadTeam& team, Isa isa) {
  if (isa >= Isa::kAvx512) return peak_gops(team, int8_loop_avx512, 2 * 64);
  if (isa == Isa::kAvxVnni) return peak_gops(team, int8_loop_avxvnni, 2 * 32);
  return isa == Isa::kAvx2 ? peak_gops(team, int8_loop_avx2, 2 * 32) : 0;
}

#else

double float_peak_gops(ThreadTeam&, Isa) { return 0; }
double int8_peak_gops(ThreadTeam&, Isa) { return 0; }

#endif

}  // namespace ibid
