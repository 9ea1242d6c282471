// GrammarConstraint: constrains an answer to the texts of a grammar. Its state is the pushed tokens; everything else is
// a cache (GrammarMatcher), which all constraints of the same prototype share. Only one thread at a time may use a
// constraint, const calls included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/byte_automaton.h"
#include "grammar/configurations.h"
#include "grammar/token_trie.h"
#include "ibid/constraint.h"
#include "ibid/token.h"

namespace ibid {

// --- TokenMasks: computes the tokens that may come next in a configuration of a grammar: the tokens after whose bytes
// the text can still be completed to a text of the grammar. Walks the vocabulary's trie and the grammar together. Not
// thread-safe.
//
// Caches and shortcuts:
// - The result for an item (a state in a rule, and the stack of states to which the rule returns) is cached by the
//   item's state alone: the tokens that end inside the rule, and the nodes of the trie at which the rule may end. From
//   these nodes the walk continues in the item's callers. So the inside of a string is walked once for all strings of a
//   schema. If walks in the callers are long, the cache's key also has states to which the rule returns.
// - Configurations with many items (property names, choices) allow few tokens, so the whole result is cached.
// - Counts of a repetition share a result if one token cannot lead from them to the minimum or maximum.
// - If all bytes below a node of the trie lead from a configuration back to itself, as those of words inside a string,
//   all tokens below the node are allowed without a walk.

class TokenMasks {
 public:
  // The arguments must outlive this object. special_tokens_in_first_rule: special tokens are allowed in the first rule
  // (Preamble, RequiredCalls). named_tokens: the token ids of ByteAutomaton::tokens().
  TokenMasks(const ByteAutomaton& automaton, const TokenTexts& vocabulary, Configurations& configs,
             bool special_tokens_in_first_rule, std::vector<TokenId> named_tokens);

  // Adds the tokens that may follow `config`. at_beginning: `config` is at the beginning of an answer. If
  // configs.limit_reached() is set afterwards, some tokens may be missing.
  void allowed(ConfigId config, bool at_beginning, TokenMask& mask);

  void clear();
  size_t n_bytes() const { return n_bytes_; }
  size_t n_nodes_walked() const { return n_nodes_walked_; }
  std::span<const TokenId> named_tokens() const { return named_tokens_; }

 private:
  static constexpr size_t kMostFrames = 4;
  static constexpr size_t kMostItems = 4;  // if a configuration has more items, the trie is walked once for all items
  // If a walk on from `exits` visits more nodes, its result is cached by return state as well.
  static constexpr size_t kMostExitNodes = 2000;
  // If more nodes of the trie are at the rule's end, caching the rule's part of the result does not pay.
  static constexpr size_t kMostExits = 6000;

  // A set of tokens: as a list if that is smaller, else as a bit mask.
  struct TokenList {
    std::vector<TokenId> ids;
    std::vector<uint64_t> words;
  };
  // Cached result for the state of an item and the states to which its rule returns: the part that does not depend on
  // the callers of these rules.
  struct RuleTokens {
    TokenList tokens;             // allowed tokens that end inside the rules of these states
    std::vector<uint32_t> exits;  // nodes of the trie after whose bytes all of these rules may have ended
    bool too_many_exits = false;
    bool has_costly_exits = false;  // the last walk on from `exits` visited more than kMostExitNodes nodes
  };
  // Key of a RuleTokens: the number of the trie (short, long or first tokens); 1 if the states below are the whole
  // stack, 0 if any callers may follow them; the item's state; then the states to which its rule returns, to which the
  // caller of this rule returns, and so on.
  using RuleTokensKey = std::vector<uint32_t>;
  struct Walk {
    std::vector<std::pair<uint32_t, uint32_t>> ranges;  // ranges of indices in TokenTrie::tokens
    std::vector<uint32_t> exits;
  };

  // Adds the tokens that the grammar names at the item's state (edges kToken and kOtherToken).
  void add_named_tokens(StackItem item, TokenMask& mask);
  // Adds the tokens that one item allows. Returns false if caching them by the item's rules does not pay, because too
  // many tokens extend beyond the end of these rules.
  bool add_item(const TokenTrie& trie, uint32_t trie_number, StackItem item, TokenMask& mask);
  // Adds the tokens that reach the end of a rule at the nodes `exits`, and continue after the rule in the states of
  // `stack`.
  void add_exits(const TokenTrie& trie, std::span<const uint32_t> exits, StackId stack, TokenMask& mask);
  void add_config(const TokenTrie& trie, uint32_t trie_number, ConfigId config, TokenMask& mask);
  // Returns the cached result for a key, computing it if it is new; nullptr if configs_.limit_reached() is set.
  RuleTokens* rule_tokens(const TokenTrie& trie, const RuleTokensKey& key);
  // Walks the nodes of the trie below `node`, after whose bytes the configuration is `config`. Returns false if the
  // rules may end at more than kMostExits nodes.
  bool walk(const TokenTrie& trie, uint32_t node, ConfigId config, Walk& out);
  bool loops_over(const TokenTrie& trie, uint32_t node, ConfigId config);
  // Returns the classes of bytes that lead from a configuration back to the same configuration.
  ByteClasses find_loops(ConfigId config);
  StateId shortened(StateId state, size_t horizon) const;
  TokenList as_list(const TokenTrie& trie, const Walk& walk) const;
  static void add(const TokenList& list, TokenMask& mask);
  static size_t bytes_of(const TokenList& list);

  const ByteAutomaton& automaton_;
  const TokenTexts& vocabulary_;
  Configurations& configs_;
  const bool special_tokens_in_first_rule_;
  const std::vector<TokenId> named_tokens_;
  std::map<RuleTokensKey, RuleTokens> rule_tokens_;
  std::map<std::pair<uint32_t, ConfigId>, TokenList> wholes_;
  std::unordered_map<ConfigId, ByteClasses> loops_;
  std::vector<ConfigId> path_;  // configurations after the bytes of the current node's ancestors, by depth
  size_t n_bytes_ = 0;
  size_t n_nodes_walked_ = 0;
};

// --- GrammarMatcher: one grammar with one vocabulary, and the caches that all constraints of one prototype share.
// Thread-safe: each call holds one lock. The state of a constraint is its tokens; its ConfigId only saves
// recomputation. If the memory for configurations is used up, all of them are dropped, and each constraint recomputes
// its configuration from its tokens.

// The state of an answer: its tokens, and the configuration of the grammar after them.
struct GrammarPlace {
  Tokens ids;
  ConfigId config = Configurations::kDead;
  uint64_t generation = 0;  // generation of the matcher for which `config` is valid; 0: `config` must be recomputed
};

class GrammarMatcher {
 public:
  GrammarMatcher(const Grammar& grammar, std::shared_ptr<const TokenTexts> vocabulary, size_t max_bytes);
  const std::vector<std::string>& ignored() const { return grammar_->ignored; }

  // Adds the tokens that may come next. Errors: those of check_references(); kLimitExceeded if the text has too many
  // parses or takes too much memory. After an error the mask is empty, may_end() is false and propose() appends
  // nothing.
  Status allowed(GrammarPlace& place, TokenMask& mask);
  bool may_end(GrammarPlace& place);
  void push(GrammarPlace& place, TokenId id);
  // Appends up to n_most tokens for the bytes that the grammar requires next. The model may choose other tokens for the
  // same bytes.
  void propose(GrammarPlace& place, size_t n_most, Tokens& ids);

  // Counters of work and memory since construction.
  struct Counters {
    size_t n_bytes, n_configs, n_steps_computed, n_nodes_walked;
    uint64_t n_generations;
  };
  Counters counters();

 private:
  // Computes place.config if it is outdated. Returns false if a limit of the configurations was reached.
  bool find(GrammarPlace& place);
  // Returns the configuration that follows `config` after token place.ids[i] of the answer.
  ConfigId config_after_token(ConfigId config, const GrammarPlace& place, size_t i);
  // Returns the items of a configuration that are in the first rule of the grammar: only there the bytes of special
  // tokens may be read.
  ConfigId items_in_first_rule(ConfigId config);
  void forget();
  // Frees memory after a limit was reached, but keeps the configuration of `place`. Returns true if the call that
  // reached the limit should be repeated.
  bool try_again(size_t n_tried, GrammarPlace& place);

  const std::shared_ptr<const Grammar::Parts> grammar_;
  const std::shared_ptr<const TokenTexts> vocabulary_;
  const size_t max_mask_bytes_;
  const Status references_;  // result of check_references()
  std::mutex mutex_;         // guards the members below
  Configurations configs_;
  TokenMasks masks_;
  uint64_t generation_ = 1;
};

// --- GrammarConstraint.

class GrammarConstraint final : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<GrammarMatcher> matcher) : matcher_(std::move(matcher)) {}

  void allowed(TokenMask& mask) const override { status_ = matcher_->allowed(place_, mask); }
  Status status() const override { return status_; }
  bool may_end() const override { return matcher_->may_end(place_); }
  void push(TokenId id) override { matcher_->push(place_, id); }
  void propose(size_t n_most, Tokens& ids) const override { matcher_->propose(place_, n_most, ids); }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<GrammarConstraint>(*this); }

  const std::shared_ptr<GrammarMatcher>& matcher() const { return matcher_; }

 private:
  std::shared_ptr<GrammarMatcher> matcher_;
  mutable GrammarPlace place_;
  mutable Status status_;
};

}  // namespace ibid
