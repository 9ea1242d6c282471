// ByteAutomaton: a grammar as states with edges on bytes, one graph of states per rule. Edges may also call rules, so
// it is a pushdown automaton; Configurations (grammar/configurations.h) runs it.
//
// A repetition {m,n} is a block: n + 1 states that need no memory, because their edges follow from their numbers.
// States from which no text can be completed are removed, so every state leads to the end of a text. Immutable and
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/grammar_rules.h"

namespace ibid {

using StateId = uint32_t;
inline constexpr StateId kFirstBlockState = StateId{1} << 30;

class ByteAutomaton {
 public:
  struct Limits {
    size_t max_states = 1'000'000;  // maximum number of states and edges
    size_t max_depth = 500;         // maximum depth of nested expressions
    uint64_t max_block_states = 1u << 30;
  };

  struct Edge {
    enum class Kind : uint8_t { kBytes, kEmpty, kCall, kToken, kOtherToken };
    Kind kind;
    uint8_t first, last;  // kBytes: the first and the last byte of the range
    StateId target;       // the next state; for kCall the state after the called rule has ended
    RuleId rule;  // kCall: the called rule. kToken, and kOtherToken (any token but this one): an index in tokens()
  };
  // A counted repetition {min,max} of a text. State base + k: the text was read k times. A state far(v) stands for all
  // counts from which `max` cannot be reached within the next token: v more texts are needed before the repetition may
  // end. If v is min + 1, it cannot end within the next token at all.
  struct Block {
    StateId base;
    uint32_t min, max;  // number of repetitions; if max is kUnbounded, state base + min has an edge to itself
    StateId after;
    bool calls;              // true: the repeated text is `rule`; false: it is one byte of `ranges`
    bool dead = false;       // the repeated rule matches no text, so the repetition cannot begin
    bool outermost = false;  // the block is in the first rule of the grammar, not in a called rule: see is_outermost()
    RuleId rule = 0;
    std::vector<ByteRange> ranges;

    uint32_t n_counts() const { return (max == kUnbounded ? min : max) + 1; }
    uint64_t n_states() const { return uint64_t{n_counts()} + min + 2; }
    StateId beyond_horizon(uint32_t v) const { return base + n_counts() + std::min(v, min + 1); }
    // Returns the state of this repetition after its text was read once more.
    StateId next(StateId state) const {
      const uint32_t k = state - base;
      if (k < n_counts()) return base + std::min(k + 1, n_counts() - 1);
      return k == n_counts() || k > n_counts() + min ? state : state - 1;
    }
    bool may_leave(StateId state) const {
      const uint32_t k = state - base;
      return k < n_counts() ? k >= min : k == n_counts();
    }
    bool is_full(StateId state) const { return state - base == max; }
  };
  struct Rule {
    StateId start, final;
    bool nullable = false;    // matches the empty text
    bool productive = false;  // matches some text
    // Order in which Configurations enters called rules: a rule has a higher rank than the rules that can call it
    // before they read a byte.
    uint32_t rank = 0;
  };

  // Errors: kLimitExceeded; kUnsupported for left recursion, naming the rule.
  static Result<ByteAutomaton> compile(const GrammarRules& grammar, const Limits& limits);
  static Result<ByteAutomaton> compile(const GrammarRules& grammar) { return compile(grammar, Limits{}); }

  bool spells_nothing() const { return !rules_[0].productive; }
  const Rule& rule(RuleId id) const { return rules_[id]; }
  size_t n_rules() const { return rules_.size(); }
  size_t n_states() const { return final_.size(); }
  size_t n_edges() const { return edges_.size(); }
  size_t n_bytes() const { return n_states() * 5 + n_edges() * sizeof(Edge) + blocks_.size() * sizeof(Block); }

  static bool is_block_state(StateId state) { return state >= kFirstBlockState; }
  // REQUIRES: the state is not in a block (a counted repetition), whose edges are not stored.
  std::span<const Edge> edges(StateId state) const {
    return std::span(edges_).subspan(edge_begin_[state], edge_begin_[state + 1] - edge_begin_[state]);
  }
  bool is_final(StateId state) const { return !is_block_state(state) && final_[state]; }
  // True if no byte of the rule can follow from this state, so that the rule can only end.
  bool is_tail(StateId state) const { return !is_block_state(state) && tail_[state]; }
  // True for states of the first rule and of repetitions in it; false for states of called rules.
  bool is_outermost(StateId state) const {
    return is_block_state(state) ? block_of(state).outermost : outermost_[state];
  }
  const Block& block_of(StateId state) const;
  // The tokens that the grammar names, as they are written in the grammar: "<think>" or, by its id, "<[123]>".
  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  friend class AutomatonBuilder;

  std::vector<uint32_t> edge_begin_;  // [n_states + 1]
  std::vector<Edge> edges_;
  std::vector<bool> final_, tail_, outermost_;
  std::vector<Block> blocks_;  // ascending by `base`
  std::vector<std::string> tokens_;
  std::vector<Rule> rules_;  // the rules of the grammar, then a rule for each text that a counted repetition repeats
};

struct Grammar::Parts {
  GrammarRules rules;
  ByteAutomaton automaton;
  bool special_tokens_in_first_rule =
      false;  // special tokens are allowed in the first rule and its repetitions, not in called rules
  std::vector<std::string> ignored = {};  // Grammar::ignored()
};

// Compiles the rules that the compiler of a notation produced. `what` names the source in messages. Errors:
// kLimitExceeded, kUnsupported (left recursion), kInvalidArgument if the grammar matches no text.
Result<Grammar> make_grammar(GrammarRules rules, std::string_view what, bool special_tokens_in_first_rule = false,
                             std::vector<std::string> ignored = {});

}  // namespace ibid
