// Runs the committed inputs of every fuzz target, and prefixes of these inputs, through the same functions, so that
// bugs found by a fuzzer do not return.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/script.h"

namespace ibid::fuzz {

#define X(name) void name(Input input);
#include "fuzz_targets.inc"
#undef X

namespace {

struct Target {
  const char* name;
  void (*run)(Input);
};
#define X(name) {#name, name},
constexpr Target kTargets[] = {
#include "fuzz_targets.inc"
};
#undef X

// A copy exactly as long as the input, so that a sanitizer detects every read after its end.
using ExactBytes = std::vector<uint8_t>;

ExactBytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::filesystem::path> corpus_of(const std::string& target) {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path folder = std::filesystem::path(IBID_FUZZ_CORPUS) / target;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, CommittedInputsPassAllChecks) {
  const std::vector<std::filesystem::path> paths = corpus_of(GetParam().name);
  ASSERT_FALSE(paths.empty());
  for (const std::filesystem::path& path : paths) {
    const ExactBytes input = read(path);
    SCOPED_TRACE(path.string());
    GetParam().run(input);
  }
}

TEST_P(Corpus, PrefixesOfInputsPassAllChecks) {
  constexpr size_t kCuts = 50;
  for (const std::filesystem::path& path : corpus_of(GetParam().name)) {
    const ExactBytes input = read(path);
    SCOPED_TRACE(path.string());
    for (size_t i = 0; i < kCuts; ++i) {
      const ExactBytes cut(input.begin(), input.begin() + static_cast<ptrdiff_t>(input.size() * i / kCuts));
      GetParam().run(cut);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Corpus, testing::ValuesIn(kTargets),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace ibid::fuzz
