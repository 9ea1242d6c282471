#include "tokenizer/models/unigram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

using Found = std::vector<std::pair<size_t, TokenId>>;

Found prefixes(const ByteTrie& trie, std::string_view text, size_t begin) {
  Found out;
  trie.for_each_prefix(text, begin, [&](size_t length, TokenId value) { out.emplace_back(length, value); });
  return out;
}

TEST(ByteTrie, EmptyTrieFindsNothing) {
  EXPECT_EQ(prefixes(ByteTrie(), "a", 0), Found{});
  EXPECT_EQ(prefixes(ByteTrie(), std::string(1, '\0'), 0), Found{});
}

TEST(ByteTrie, FindsPrefixesShortestFirst) {
  const ByteTrie trie({{"abc", 7}, {"a", 0}, {"ab", 3}, {"b", 1}});
  EXPECT_EQ(prefixes(trie, "xabcd", 1), (Found{{1, 0}, {2, 3}, {3, 7}}));
  EXPECT_EQ(prefixes(trie, "xab", 1), (Found{{1, 0}, {2, 3}}));
  EXPECT_EQ(prefixes(trie, "xabcd", 2), (Found{{1, 1}}));
  EXPECT_EQ(prefixes(trie, "xabcd", 0), Found{});
}

// Small alphabets give deep tries with many children, all bytes give wide ones.
TEST(ByteTrie, TrieMatchesAMapOfAllTexts) {
  std::mt19937_64 random(test_seed());
  for (const size_t n_letters : {1, 2, 5, 256}) {
    for (const size_t n_texts : {1, 30, 3'000}) {
      const auto some = [&](size_t most) {
        std::string text;
        for (size_t n = 1 + random() % most; n > 0; --n)
          text += static_cast<char>(random() % n_letters * 255 / n_letters);
        return text;
      };
      std::map<std::string, TokenId> texts;
      for (size_t i = 0; i < n_texts; ++i) texts.emplace(some(12), static_cast<TokenId>(i));
      std::vector<ByteTrie::Entry> entries;
      for (const auto& [text, value] : texts) entries.push_back({text, value});
      std::shuffle(entries.begin(), entries.end(), random);
      const ByteTrie trie(entries);
      for (int i = 0; i < 2'000; ++i) {
        std::string text = some(20);
        if (i % 2 == 0) text = std::string(entries[random() % entries.size()].text) + text;
        Found wanted;
        for (size_t length = 1; length <= text.size(); ++length) {
          if (const auto found = texts.find(text.substr(0, length)); found != texts.end()) {
            wanted.emplace_back(length, found->second);
          }
        }
        ASSERT_EQ(prefixes(trie, text, 0), wanted);
      }
    }
  }
}

// Nodes with the children 0x00 and 0xFF: a table from the first to the last child would have 256 entries for two.
TEST(ByteTrie, NodesWithDistantChildrenTakeLittleMemory) {
  std::vector<std::string> texts;
  for (int i = 0; i < 4'096; ++i) {
    std::string text;
    for (int bit = 0; bit < 12; ++bit) text += (i >> bit & 1) != 0 ? '\xFF' : '\0';
    texts.push_back(text);
  }
  std::vector<ByteTrie::Entry> entries;
  for (const std::string& text : texts) entries.push_back({text, static_cast<TokenId>(entries.size())});
  const size_t n_nodes = 8'191;
  EXPECT_LT(ByteTrie(entries).n_units(), 2 * n_nodes);
}

}  // namespace
}  // namespace ibid
