// TokenMasks: which tokens may stand next in a configuration of a grammar. A token may, if the grammar has a text that
// goes on with its bytes; they are found by walking the trie of the vocabulary and the grammar together.
//
// What was walked is kept, in two ways. An item in a rule has a part of its answer that depends on the rule alone, not
// on who called it; so it is kept by the item's state (and those of a few rules that it returns to). What is left are
// the tokens that reach beyond: these are walked on from where the rule ends. So the inside of a string is walked once
// for all strings of a schema. Configurations with many items (names of properties, choices) allow few tokens and are
// kept as they are.
//
// Counts of repetitions that are too far from their end to matter to a token are taken as equal.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "grammar/configurations.h"
#include "grammar/token_trie.h"
#include "ibid/constraint.h"

namespace ibid {

class TokenMasks {
 public:
  // The parts must outlive it. free_text: in the first rule, special tokens may stand, too (LeadIn, DemandedCalls).
  TokenMasks(const ByteAutomaton& automaton, const TokenTexts& vocabulary, Configurations& configs, bool free_text);

  // Adds the tokens that may stand behind `config`. in_front: the first of an answer. When configs.trouble() says so
  // afterwards, some may be missing.
  void allowed(ConfigId config, bool in_front, TokenMask& mask);

  void clear();
  size_t n_bytes() const { return n_bytes_; }
  size_t n_nodes_walked() const { return n_nodes_walked_; }

 private:
  static constexpr size_t kMostFrames = 4;
  static constexpr size_t kMostItems = 4;     // beyond, a configuration is walked as a whole
  static constexpr size_t kMostExits = 6000;  // beyond, the rule is too small to be kept by itself

  // A set of tokens, as a list while that is shorter.
  struct TokenList {
    std::vector<TokenId> ids;
    std::vector<uint64_t> words;
  };
  // What is known of a state, and those that it returns to.
  struct Local {
    TokenList tokens;             // that end within these rules
    std::vector<uint32_t> exits;  // nodes of the trie at which all of these rules may have ended
    bool too_many_exits = false;
  };
  // [trie, whether the stack below is the text's, states ...]
  using LocalKey = std::vector<uint32_t>;
  struct Walk {
    std::vector<TokenId> ids;
    std::vector<uint32_t> exits;
  };

  // False: the item's rules are too small.
  bool add_item(const TokenTrie& trie, uint32_t trie_number, StackItem item, TokenMask& mask);
  void add_config(const TokenTrie& trie, uint32_t trie_number, ConfigId config, TokenMask& mask);
  const Local& local(const TokenTrie& trie, const LocalKey& key);
  // Walks the nodes below `node`, at which `config` stands. False: there were too many exits.
  bool walk(const TokenTrie& trie, uint32_t node, ConfigId config, Walk& out);
  StateId shortened(StateId state, size_t horizon) const;
  TokenList as_list(std::vector<TokenId> ids) const;
  static void add(const TokenList& list, TokenMask& mask);
  static size_t bytes_of(const TokenList& list);

  const ByteAutomaton& automaton_;
  const TokenTexts& vocabulary_;
  Configurations& configs_;
  const bool free_text_;
  std::map<LocalKey, Local> locals_;
  std::map<std::pair<uint32_t, ConfigId>, TokenList> wholes_;
  std::vector<ConfigId> path_;  // of a walk: the configuration at each depth
  size_t n_bytes_ = 0;
  size_t n_nodes_walked_ = 0;
};

}  // namespace ibid
