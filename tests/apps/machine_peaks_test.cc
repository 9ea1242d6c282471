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

// A way that left lines out, or read some of them twice, would be faster or slower than memory is.
TEST(MachinePeaks, EachWayReadsEveryLineOnce) {
  constexpr size_t kWords = 8;  // of a line
  ASSERT_GE(read_ways().size(), 2u);
  for (const size_t lines : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{31}, size_t{1000}}) {
    const std::vector<uint64_t> words = random_words(lines * kWords + 3);  // and a part of a line, which is not read
    uint64_t all = 0;
    for (size_t i = 0; i < lines * kWords; ++i) all ^= words[i];
    for (const ReadWay& way : read_ways()) {
      EXPECT_EQ(way.read(std::as_bytes(std::span(words))), all)
          << lines << " lines in " << way.streams << " streams, " << way.ahead << " bytes ahead";
    }
  }
}

// That it is a rate of the machine's, tests cannot tell; that threads share the work and all of it is done, they can.
TEST(MachinePeaks, ReadsWithAnyNumberOfThreads) {
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
