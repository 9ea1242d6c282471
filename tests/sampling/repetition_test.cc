// Compares the detector with one that counts every period, over texts of all kinds, and tests its cost, and texts that
// must not end an answer.
#include "sampling/repetition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

namespace ibid {
namespace {

constexpr size_t kTimes = RepetitionDetector::kTimes;
constexpr size_t kMinTokens = RepetitionDetector::kMinTokens;

// Counts for every period how many tokens at the end have it without interruption.
class NaiveDetector {
 public:
  // Returns the smallest period that is repeated often enough, or 0.
  size_t push(TokenId id) {
    ids_.push_back(id);
    const size_t last = ids_.size() - 1;
    if (last > 0) n_equal_.push_back(0);
    size_t found = 0;
    for (size_t period = 1; period <= last; ++period) {
      size_t& n = n_equal_[period - 1];
      n = ids_[last - period] == id ? n + 1 : 0;
      const size_t times = (n + period) / period;
      if (found == 0 && n > 0 && times >= kTimes && times * period >= kMinTokens) found = period;
    }
    return found;
  }

 private:
  Tokens ids_;
  std::vector<size_t> n_equal_;  // [period - 1]: tokens at the end that equal the one a period before them
};

// Returns the number of tokens of the text that complete a repetition.
size_t expect_agrees(const std::string& name, const Tokens& text) {
  RepetitionDetector detector;
  NaiveDetector naive;
  size_t n_found = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t expected = naive.push(text[i]);
    const bool repeats = detector.push(text[i]);
    EXPECT_EQ(repeats, expected > 0) << name << ", id " << i << ", period " << expected;
    EXPECT_EQ(detector.period(), expected) << name << ", id " << i;
    n_found += repeats;
    if (testing::Test::HasFailure()) return n_found;
  }
  return n_found;
}

void append(Tokens& text, const Tokens& more) { text.insert(text.end(), more.begin(), more.end()); }

Tokens random_ids(size_t n, TokenId n_letters, std::mt19937& random) {
  Tokens out(n);
  for (TokenId& id : out) id = static_cast<TokenId>(random() % static_cast<uint32_t>(n_letters));
  return out;
}

// Returns n tokens: `span`, repeated.
Tokens repeated(const Tokens& span, size_t n) {
  Tokens out;
  for (size_t i = 0; i < n; ++i) out.push_back(span[i % span.size()]);
  return out;
}

size_t first_that_repeats(const Tokens& text) {
  RepetitionDetector detector;
  for (size_t i = 0; i < text.size(); ++i) {
    if (detector.push(text[i])) return i + 1;
  }
  return 0;
}

TEST(RepetitionTest, EveryPeriodIsDetectedAtTheFirstPossibleToken) {
  std::mt19937 random(5);
  for (size_t period = 1; period <= 300; ++period) {
    const size_t needed = period * std::max(kTimes, (kMinTokens + period - 1) / period);
    const size_t n_in_front = random() % 400;
    Tokens text;
    for (size_t i = 0; i < n_in_front; ++i) text.push_back(static_cast<TokenId>(100'000 + i));
    Tokens span(period);
    for (size_t i = 0; i < period; ++i) span[i] = static_cast<TokenId>(i);
    append(text, repeated(span, needed - 1));
    ASSERT_EQ(first_that_repeats(text), 0u) << period;
    append(text, {static_cast<TokenId>((needed - 1) % period)});
    ASSERT_EQ(first_that_repeats(text), text.size()) << period;
  }
}

TEST(RepetitionTest, DetectorMatchesTheReferenceOnTextsOfEveryKind) {
  std::mt19937 random(7);
  size_t n_found = 0;
  for (int round = 0; round < 60; ++round) {
    Tokens text;
    while (text.size() < 3000) {
      // A repeated span of few or many letters, possibly repetitive itself, sometimes with an error.
      const auto n_letters = static_cast<TokenId>(1 + random() % (round % 2 == 0 ? 2 : 40));
      Tokens span = random_ids(1 + random() % (round % 3 == 0 ? 12 : 150), n_letters, random);
      if (random() % 3 == 0) span = repeated(span, span.size() * (1 + random() % 9) + random() % 5);
      Tokens part = repeated(span, random() % (12 * span.size() + 300));
      if (random() % 3 == 0 && !part.empty()) part[random() % part.size()] = 77;
      append(text, part);
    }
    n_found += expect_agrees("round " + std::to_string(round), text);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(n_found, 1000u);
}

TEST(RepetitionTest, DetectorMatchesTheReferenceOnNestedRepetitions) {
  // A span is repeated seven times, then a comma follows, and all of that is repeated. Only the outer repetition
  // counts, and it is complete later.
  for (const size_t inner : {1, 5, 33}) {
    Tokens span;
    for (size_t i = 0; i < inner; ++i) span.push_back(static_cast<TokenId>(i));
    Tokens outer = repeated(span, 7 * inner);
    outer.push_back(99);
    EXPECT_GT(expect_agrees("inner " + std::to_string(inner), repeated(outer, 12 * outer.size() + 300)), 0u);
  }
}

TEST(RepetitionTest, FibonacciAndThueMorseWordsAreNotRepetitions) {
  Tokens fibonacci = {0}, before = {1};
  while (fibonacci.size() < 4000) {
    Tokens next = fibonacci;
    append(next, before);
    before = std::exchange(fibonacci, std::move(next));
  }
  EXPECT_EQ(expect_agrees("Fibonacci's word, which has no span four times", fibonacci), 0u);
  Tokens thue_morse;
  for (uint32_t i = 0; i < 4000; ++i) thue_morse.push_back(__builtin_popcount(i) % 2);
  EXPECT_EQ(expect_agrees("the word of Thue and Morse, which has none three times", thue_morse), 0u);
}

TEST(RepetitionTest, SimilarSpansAreNotRepetitions) {
  const auto line = [](TokenId changing) { return Tokens{10, changing, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21}; };
  Tokens numbered, refrain, table;
  for (TokenId i = 0; i < 500; ++i) append(numbered, line(1000 + i));
  EXPECT_EQ(first_that_repeats(numbered), 0u) << "one number is another in each line";
  for (TokenId i = 0; i < 60; ++i) {
    append(refrain, repeated({1, 2, 3, 4, 5}, 35));
    append(refrain, {2000 + i, 2001 + i});
  }
  EXPECT_EQ(first_that_repeats(refrain), 0u) << "a verse of its own between the refrains";
  for (TokenId row = 0; row < 100; ++row) {
    for (TokenId column = 0; column < 8; ++column) append(table, {30, 100 + (row * 7 + column * 3) % 101, 31});
  }
  EXPECT_EQ(first_that_repeats(table), 0u);
  EXPECT_EQ(first_that_repeats(Tokens(kMinTokens - 1, 5)), 0u);
  EXPECT_EQ(first_that_repeats(Tokens(kMinTokens, 5)), kMinTokens);
}

TEST(RepetitionTest, WorkPerTokenDoesNotGrowWithTheText) {
  std::mt19937 random(3);
  const Tokens letters = random_ids(900, 2, random);
  const std::vector<std::pair<const char*, std::function<TokenId(size_t)>>> texts = {
      {"two letters", [&](size_t) { return static_cast<TokenId>(random() % 2); }},
      {"one letter", [&](size_t) { return 0; }},
      {"one letter with others", [&](size_t) { return random() % 97 == 0 ? 1 : 0; }},
      {"a short span with mistakes", [&](size_t i) { return random() % 300 == 0 ? 9 : static_cast<TokenId>(i % 5); }},
      {"a long span", [&](size_t i) { return letters[i % letters.size()]; }},
      {"a long span with mistakes", [&](size_t i) { return random() % 2000 == 0 ? 9 : letters[i % letters.size()]; }},
  };
  for (const auto& [name, next] : texts) {
    RepetitionDetector detector;
    constexpr size_t kIds = 100'000;
    size_t most = 0;
    for (size_t tenth = 0; tenth < 10; ++tenth) {
      const size_t before = detector.n_steps();
      for (size_t i = 0; i < kIds / 10; ++i) detector.push(next(tenth * kIds / 10 + i));
      most = std::max(most, (detector.n_steps() - before) / (kIds / 10));
    }
    EXPECT_LT(most, 100u) << name;
    std::printf("%s: at most %zu ids compared for one\n", name, most);
  }
}

}  // namespace
}  // namespace ibid
