#include "bench/lab/machine_peaks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace ibid {
namespace {

std::vector<uint64_t> random_words(size_t n) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> words(n);
  for (uint64_t& word : words) word = random();
  return words;
}

// A read loop that skips or repeats lines would give a wrong bandwidth.
TEST(MachinePeaks, EachReadLoopReadsEveryCacheLineOnce) {
  constexpr size_t kWords = 8;  // words in a cache line
  ASSERT_GE(read_ways().size(), 2u);
  for (const size_t lines : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{31}, size_t{1000}}) {
    const std::vector<uint64_t> words = random_words(lines * kWords + 3);  // a partial line at the end is not read
    uint64_t all = 0;
    for (size_t i = 0; i < lines * kWords; ++i) all ^= words[i];
    for (const ReadWay& way : read_ways()) {
      EXPECT_EQ(way.read(std::as_bytes(std::span(words))), all)
          << lines << " lines in " << way.streams << " streams, " << way.ahead << " bytes ahead";
    }
  }
}

// A test cannot verify the bandwidth, only that any number of threads completes the work.
TEST(MachinePeaks, BandwidthIsMeasuredWithAnyNumberOfThreads) {
  const std::vector<uint64_t> words = random_words(1 << 14);
  for (const int n_threads : {1, 2, 3}) {
    const auto team = ThreadTeam::create(n_threads);
    ASSERT_TRUE(team.ok());
    EXPECT_GT(read_bandwidth_gbps(**team, std::as_bytes(std::span(words))), 0);
    EXPECT_GT(read_bandwidth_gbps(**team, std::as_bytes(std::span(words).first(8))), 0);
  }
}

}  // namespace
}  // namespace ibid
