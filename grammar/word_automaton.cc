#include "grammar/word_automaton.h"

#include "base/check.h"

namespace ibid {

void add_byte_edges(uint32_t from, const ByteTargets& targets, GrammarRules& rules, ExprGraph& graph) {
  for (size_t first = 0, end = 1; end <= targets.size(); ++end) {
    if (end < targets.size() && targets[end] == targets[first]) continue;
    if (targets[first] != kNowhere) {
      const auto last = static_cast<uint8_t>(end - 1);
      graph.add_edge(from, rules.byte_range(static_cast<uint8_t>(first), last), targets[first]);
    }
    first = end;
  }
}

WordAutomaton::WordAutomaton(const std::vector<std::string>& words) : nodes_(1) {
  find_longest_words(words);
  // Nodes in the order of their depth: the longest shorter end of a text is known before it is needed.
  std::vector<uint32_t> fallback(nodes_.size(), 0), order = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t at = order[i], back = fallback[at];
    if (nodes_[at].word == kNoWord && at != 0) nodes_[at].word = nodes_[back].word;
    for (size_t byte = 0; byte < 256; ++byte) {
      uint32_t& next = nodes_[at].next[byte];
      const uint32_t otherwise = at == 0 ? 0 : nodes_[back].next[byte];
      if (next == 0) {
        next = otherwise;
      } else {
        fallback[next] = otherwise;
        order.push_back(next);
      }
    }
  }
}

// The tree of the words; 0 is no way on, because nothing leads back to where a text begins.
void WordAutomaton::find_longest_words(const std::vector<std::string>& words) {
  size_t n_bytes = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    CHECK(!words[i].empty() && (n_bytes += words[i].size()) <= kMostBytes);
    uint32_t at = 0;
    for (const char c : words[i]) {
      const auto byte = static_cast<uint8_t>(c);
      if (nodes_[at].next[byte] == 0) {
        nodes_[at].next[byte] = n_nodes();
        nodes_.emplace_back();
      }
      at = nodes_[at].next[byte];
    }
    nodes_[at].word = static_cast<uint32_t>(i);
  }
}

uint32_t WordAutomaton::add_to(ExprGraph& graph, GrammarRules& rules, const std::vector<bool>& is_open) const {
  const uint32_t base = graph.n_states;
  graph.n_states += n_nodes();
  for (uint32_t i = 0; i < n_nodes(); ++i) {
    if (nodes_[i].word != kNoWord) continue;
    ByteTargets targets{};
    for (size_t byte = 0; byte < targets.size(); ++byte) {
      const uint32_t next = nodes_[i].next[byte], word = nodes_[next].word;
      targets[byte] = word == kNoWord || is_open[word] ? base + next : kNowhere;
    }
    add_byte_edges(base + i, targets, rules, graph);
  }
  return base;
}

}  // namespace ibid
