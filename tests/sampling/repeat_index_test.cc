// Compares the index with an exhaustive search, over texts of all kinds that grow and are truncated; tests its cost.
#include "sampling/token_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace ibid {
namespace {

using Repeats = std::map<TokenId, size_t>;

Repeats naive(const Tokens& ids, size_t min_length, size_t max_length, size_t window) {
  const size_t begin = ids.size() - std::min(window, ids.size());
  Repeats out;
  for (size_t next = begin; next < ids.size(); ++next) {
    size_t length = 0;
    while (length < std::min(max_length, RepeatIndex::kMaxMatch) && begin + length < next &&
           ids[next - 1 - length] == ids[ids.size() - 1 - length]) {
      ++length;
    }
    if (length >= min_length) out[ids[next]] = std::max(out[ids[next]], length);
  }
  return out;
}

Repeats found(const RepeatIndex& index, size_t min_length, size_t max_length, size_t window) {
  std::vector<RepeatIndex::Repeat> repeats;
  index.find(min_length, max_length, window, repeats);
  Repeats out;
  for (const auto& [id, length] : repeats) {
    EXPECT_FALSE(out.contains(id)) << "twice";
    out[id] = length;
  }
  return out;
}

void expect_agrees(const RepeatIndex& index, const Tokens& ids, std::mt19937& random) {
  ASSERT_EQ(index.size(), ids.size());
  const size_t min_length = 1 + random() % 4;
  const size_t max_length = random() % 2 == 0 ? RepeatIndex::kMaxMatch : random() % 60;
  const size_t window = random() % 2 == 0 ? SIZE_MAX : random() % (ids.size() + 2);
  ASSERT_EQ(found(index, min_length, max_length, window), naive(ids, min_length, max_length, window))
      << "length " << ids.size() << ", min " << min_length << ", max " << max_length << ", window " << window;
}

// Returns the next token of a text: from a small or large alphabet, periodic, or copied from earlier text with errors.
TokenId next_id(const Tokens& ids, int kind, std::mt19937& random) {
  switch (kind) {
    case 0: return static_cast<TokenId>(random() % 2);
    case 1: return static_cast<TokenId>(random() % 40);
    case 2: return random() % 90 == 0 ? 1 : 0;
    case 3: return ids.size() < 3 || random() % 70 == 0 ? static_cast<TokenId>(random() % 5) : ids[ids.size() - 3];
    default: return ids.size() < 80 || random() % 60 == 0 ? static_cast<TokenId>(random() % 30) : ids[ids.size() - 80];
  }
}

TEST(RepeatIndexTest, LookupsMatchAnExhaustiveSearch) {
  for (int kind = 0; kind < 5; ++kind) {
    for (uint32_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE("kind " + std::to_string(kind) + " seed " + std::to_string(seed));
      std::mt19937 random(seed);
      RepeatIndex index;
      Tokens ids;
      while (ids.size() < 260) {
        ids.push_back(next_id(ids, kind, random));
        index.append(ids.back());
        expect_agrees(index, ids, random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(RepeatIndexTest, TruncateUndoesAppends) {
  for (int kind = 0; kind < 5; ++kind) {
    for (uint32_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE("kind " + std::to_string(kind) + " seed " + std::to_string(seed));
      std::mt19937 random(100 + seed);
      RepeatIndex index;
      Tokens ids;
      for (int step = 0; step < 40; ++step) {
        for (size_t n = random() % 40; n > 0; --n) {
          ids.push_back(next_id(ids, kind, random));
          index.append(ids.back());
        }
        ids.resize(ids.size() - random() % (ids.size() / 2 + 1));
        index.truncate(ids.size());
        for (int i = 0; i < 5; ++i) expect_agrees(index, ids, random);
        if (HasFatalFailure()) return;
      }
      index.truncate(0);
      expect_agrees(index, {}, random);
    }
  }
}

TEST(RepeatIndexTest, CopiesAreIndependentOfTheirOriginal) {
  std::mt19937 random(5);
  RepeatIndex a;
  Tokens ids;
  for (int i = 0; i < 100; ++i) a.append(ids.emplace_back(next_id(ids, 0, random)));
  RepeatIndex b = a;
  Tokens other = ids;
  for (int i = 0; i < 50; ++i) a.append(ids.emplace_back(next_id(ids, 2, random)));
  for (int i = 0; i < 50; ++i) b.append(other.emplace_back(next_id(other, 1, random)));
  for (int i = 0; i < 20; ++i) expect_agrees(a, ids, random);
  for (int i = 0; i < 20; ++i) expect_agrees(b, other, random);
}

// In every tenth of a long text append, find and truncate take as many steps per token as in the first.
TEST(RepeatIndexTest, WorkPerTokenDoesNotGrowWithTheText) {
  constexpr size_t kLength = 40'000;
  for (int kind = 0; kind < 5; ++kind) {
    SCOPED_TRACE(kind);
    std::mt19937 random(7);
    RepeatIndex index;
    Tokens ids;
    std::vector<RepeatIndex::Repeat> repeats;
    size_t most = 0;
    for (size_t tenth = 0; tenth < 10; ++tenth) {
      const size_t before = index.n_steps();
      for (size_t i = 0; i < kLength / 10; ++i) {
        ids.push_back(next_id(ids, kind, random));
        index.append(ids.back());
        index.find(2, RepeatIndex::kMaxMatch, SIZE_MAX, repeats);
      }
      const size_t steps = (index.n_steps() - before) / (kLength / 10);
      // Each of 50 matches may have an edge for each token; an append visits up to 51 states.
      EXPECT_LT(steps, 250u) << "tenth " << tenth;
      most = std::max(most, steps);
    }
    const size_t before = index.n_steps();
    index.truncate(kLength / 2);
    EXPECT_LT((index.n_steps() - before) / (kLength / 2), 70u);
    std::printf("kind %d: at most %zu steps an id\n", kind, most);
  }
}

}  // namespace
}  // namespace ibid
