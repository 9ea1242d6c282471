#include "sampling/stop_detector.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/utf8.h"
#include "sampling/sampler.h"

namespace ibid {
namespace {

StopDetector make_detector(const std::vector<std::string>& strings) {
  Result<StopDetector> detector = StopDetector::create(strings);
  EXPECT_TRUE(detector.ok()) << detector.status().message();
  return *std::move(detector);
}

struct Outcome {
  std::string text;
  std::string found;
};

// The reference: after each byte, checks whether the text so far ends with a stop string; the longest one wins.
Outcome naive(const std::vector<std::string>& strings, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& s : strings) {
      if (s.size() <= end && text.compare(end - s.size(), s.size(), s) == 0 && s.size() > best.size()) best = s;
    }
    if (!best.empty()) return {text.substr(0, end - best.size()), best};
  }
  return {text, ""};
}

// Returns the longest part of `text` that is safe to emit, without its longest suffix that begins a stop string.
std::string naive_safe(const std::vector<std::string>& strings, const std::string& text) {
  size_t held = 0;
  for (const std::string& s : strings) {
    for (size_t n = 1; n < s.size() && n <= text.size(); ++n) {
      if (text.compare(text.size() - n, n, s, 0, n) == 0) held = std::max(held, n);
    }
  }
  return text.substr(0, text.size() - held);
}

TEST(StopDetectorTest, TextIsReleasedAtOnceWithoutStopStrings) {
  StopDetector detector = make_detector({});
  EXPECT_EQ(detector.push("anything").text, "anything");
  EXPECT_EQ(detector.finish(), "");
  StopDetector by_default;
  EXPECT_EQ(by_default.push("x").text, "x");
}

TEST(StopDetectorTest, HoldsBackOnlyPossibleStopStrings) {
  StopDetector detector = make_detector({"\nUser:"});
  EXPECT_EQ(detector.push("Hello\n").text, "Hello");
  EXPECT_EQ(detector.n_held_back(), 1u);
  EXPECT_EQ(detector.push("Us").text, "");
  EXPECT_EQ(detector.push("ually").text, "\nUsually");
  EXPECT_EQ(detector.push("\nUse").text, "");
  const StopDetector::Step step = detector.push("r: more");
  EXPECT_EQ(step.text, "");
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(detector.found(), "\nUser:");
}

TEST(StopDetectorTest, FinishReleasesHeldText) {
  StopDetector detector = make_detector({"END"});
  EXPECT_EQ(detector.push("the EN").text, "the ");
  EXPECT_EQ(detector.finish(), "EN");
}

TEST(StopDetectorTest, StopStringThatIsCompleteFirstWinsThenTheLongest) {
  StopDetector inner = make_detector({"abcd", "bc"});
  StopDetector::Step step = inner.push("xabcd");
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(step.text, "xa");
  EXPECT_EQ(inner.found(), "bc");
  StopDetector both = make_detector({"c", "abc"});
  step = both.push("xabc");
  EXPECT_EQ(step.text, "x");
  EXPECT_EQ(both.found(), "abc");
}

TEST(StopDetectorTest, CopiesAreIndependentOfTheirOriginal) {
  StopDetector a = make_detector({"stop"});
  a.push("st");
  StopDetector b = a;
  EXPECT_TRUE(a.push("op").stopped);
  EXPECT_EQ(b.push("ay").text, "stay");
}

// Small alphabets make overlaps likely. Compares outcome and every step with the reference, for pieces of every size.
TEST(StopDetectorTest, MatchesReferenceOnRandomTexts) {
  size_t n_stopped = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    uint64_t n = 0;
    const auto next = [&](uint64_t below) { return random_bits(seed, n++) % below; };
    const auto word = [&](size_t size) {
      std::string out;
      while (out.size() < size) out.push_back(static_cast<char>('a' + next(3)));
      return out;
    };
    std::vector<std::string> strings;
    for (uint64_t i = 0, count = next(5); i < count; ++i) strings.push_back(word(1 + next(6)));
    const std::string text = word(next(40));
    const Outcome expected = naive(strings, text);
    StopDetector detector = make_detector(strings);
    std::string shown, given;
    bool stopped = false;
    while (given.size() < text.size() && !stopped) {
      const std::string piece = text.substr(given.size(), 1 + next(4));
      given += piece;
      const StopDetector::Step step = detector.push(piece);
      shown += step.text;
      stopped = step.stopped;
      if (!stopped) {
        ASSERT_EQ(shown, naive_safe(strings, given)) << "seed " << seed;
      }
    }
    if (!stopped) shown += detector.finish();
    n_stopped += stopped ? 1 : 0;
    ASSERT_EQ(shown, expected.text) << "seed " << seed;
    ASSERT_EQ(detector.found(), expected.found) << "seed " << seed;
  }
  EXPECT_GT(n_stopped, 500u);
}

TEST(StopDetectorTest, Utf8CharactersAreNotSplit) {
  StopDetector detector = make_detector({"é!", "日本"});
  std::string all;
  for (const std::string piece : {"caf", "é", " ", "日", "月", "日", "é", "x"}) {
    const StopDetector::Step step = detector.push(piece);
    EXPECT_TRUE(utf8_is_valid(step.text)) << piece;
    all += step.text;
  }
  EXPECT_EQ(all + detector.finish(), "café 日月日éx");
}

TEST(StopDetectorTest, InvalidStopStringsAreRejectedByName) {
  const auto code = [](const std::vector<std::string>& s) { return StopDetector::create(s).status().code(); };
  EXPECT_EQ(code({"a", ""}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({std::string(1025, 'a')}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(std::vector<std::string>(129, "a")), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"\xC3"}), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(StopDetector::create(std::vector<std::string>(128, std::string(1024, 'a'))).ok());
  EXPECT_NE(StopDetector::create({"a", ""}).status().message().find("stop_strings[1]"), std::string::npos);
}

}  // namespace
}  // namespace ibid
