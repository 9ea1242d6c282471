// GrammarConstraint: a grammar as the constraint of an answer. Its place is the ids that were pushed and nothing else;
// what it knows beyond is shared with all constraints of the same prototype (GrammarMatcher).
// One thread uses one constraint at a time, also for questions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/byte_automaton.h"
#include "grammar/configurations.h"
#include "grammar/token_trie.h"
#include "ibid/constraint.h"
#include "ibid/token.h"

namespace ibid {

// --- TokenMasks: which tokens may stand next in a configuration of a grammar. A token may, if the grammar has a text
// that goes on with its bytes; they are found by walking the trie of the vocabulary and the grammar together. The
// results of walks are kept, in two ways. An item in a rule has a part of its answer that depends on the rule alone,
// not on who called it; so it is kept by the item's state (and those of a few rules that it returns to). The other
// tokens reach beyond the rule: these are walked on from where the rule ends. So the inside of a string is walked
// once for all strings of a schema. Configurations with many items (names of properties, choices) allow few tokens
// and are kept as they are. Counts of repetitions that are too far from their end to matter to a token are taken as
// equal. Not thread-safe.

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
  // The known answers of a state and of those that it returns to.
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

// --- GrammarMatcher: one grammar with one vocabulary, and what was found out about them, for all constraints made of
// one prototype. Thread-safe: one lock, held for a call.
// A constraint's place is its ids; the number of a configuration is only a shortcut to it. When the memory for
// configurations is used up they are all forgotten, and each constraint finds its place again by its ids.

// Where an answer stands.
struct GrammarPlace {
  Tokens ids;
  ConfigId config = Configurations::kDead;
  uint64_t generation = 0;  // of the number; 0: no number is known
};

class GrammarMatcher {
 public:
  GrammarMatcher(std::shared_ptr<const Grammar::Parts> grammar, std::shared_ptr<const TokenTexts> vocabulary,
                 size_t max_bytes);

  // Errors of these, as far as they have one: kLimitExceeded when the text has too many readings, or takes too much
  // memory. The result is empty then.
  Status allowed(GrammarPlace& place, TokenMask& mask);
  bool may_end(GrammarPlace& place);
  void push(GrammarPlace& place, TokenId id);
  // Appends up to n_most tokens of the bytes that have to come next. They need not be the tokens that are sampled.
  void propose(GrammarPlace& place, size_t n_most, Tokens& ids);

  // Counters of work and memory, since construction.
  struct Counters {
    size_t n_bytes, n_configs, n_steps_computed, n_nodes_walked;
    uint64_t n_generations;
  };
  Counters counters();

 private:
  // Makes place.config the place's. False: trouble.
  bool find(GrammarPlace& place);
  ConfigId read(ConfigId config, std::string_view bytes);
  std::string_view bytes_at(const GrammarPlace& place, size_t i) const;
  void forget();
  // After trouble: whether to try once more, with room made.
  bool try_again(size_t n_tried);

  const std::shared_ptr<const Grammar::Parts> grammar_;
  const std::shared_ptr<const TokenTexts> vocabulary_;
  const size_t max_mask_bytes_;
  std::mutex mutex_;  // guards what follows
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
