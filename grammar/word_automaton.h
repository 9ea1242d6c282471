// WordAutomaton: where in a text the first of some words ends (Aho and Corasick, 1975). Its nodes become states of an
// ExprGraph, so that a grammar can say "any text up to this word", or "any text without these". Immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "grammar/grammar_rules.h"

namespace ibid {

// Where each byte leads from a state; kNowhere: it may not come.
inline constexpr uint32_t kNowhere = UINT32_MAX;
using ByteTargets = std::array<uint32_t, 256>;
void add_byte_edges(uint32_t from, const ByteTargets& targets, GrammarRules& rules, ExprGraph& graph);

class WordAutomaton {
 public:
  static constexpr size_t kMostBytes = 10'000;  // of all words together
  static constexpr uint32_t kNoWord = UINT32_MAX;

  // REQUIRES: no word is empty; at most kMostBytes. Node 0 is where a text begins.
  explicit WordAutomaton(const std::vector<std::string>& words);

  uint32_t n_nodes() const { return static_cast<uint32_t>(nodes_.size()); }
  // The longest word that ends at a node.
  uint32_t word_at(uint32_t node) const { return nodes_[node].word; }
  uint32_t next(uint32_t node, uint8_t byte) const { return nodes_[node].next[byte]; }

  // Adds its nodes to the graph, and the bytes that lead from one to another; returns the state of node 0, which the
  // others follow. From a node where a word ends nothing leads on, and to one where a word ends only if `is_open`
  // says so of the word: a text without the others is what is left.
  uint32_t add_to(ExprGraph& graph, GrammarRules& rules, const std::vector<bool>& is_open) const;

 private:
  struct Node {
    ByteTargets next{};
    uint32_t word = kNoWord;
  };
  void find_longest_words(const std::vector<std::string>& words);

  std::vector<Node> nodes_;
};

}  // namespace ibid
