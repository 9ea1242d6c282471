// ByteAutomaton: a grammar as states with edges on bytes, one graph of states for each rule. An edge may call a rule,
// so it is a pushdown automaton; grammar/configurations.h runs it.
//
// A repetition {m,n} is a block: n + 1 states that take no memory, because their edges follow from their number.
// States that cannot lead to the end of a text are removed: no state is a dead end.
// Immutable and thread-safe.
#pragma once

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
    size_t max_states = 1'000'000;       // and edges
    size_t max_depth = 500;              // of nested expressions
    uint64_t max_block_states = 1u << 30;
  };

  struct Edge {
    enum class Kind : uint8_t { kBytes, kEmpty, kCall };
    Kind kind;
    uint8_t first, last;  // kBytes
    StateId target;       // kCall: where the rule returns to
    RuleId rule;          // kCall
  };
  // State base + k has seen k of the repeated texts.
  struct Block {
    StateId base;
    uint32_t min, max;              // max may be kUnbounded: then state base + min repeats
    StateId after;
    bool calls;                     // the body is `rule`, else one byte of `ranges`
    bool dead = false;              // the body spells no text
    bool outermost = false;         // as is_outermost() of its states
    RuleId rule = 0;
    std::vector<ByteRange> ranges;

    uint32_t n_states() const { return (max == kUnbounded ? min : max) + 1; }
  };
  struct Rule {
    StateId start, final;
    bool nullable = false;    // spells the empty text
    bool productive = false;  // spells any text
    uint32_t rank = 0;        // higher than that of every rule that can call it before a byte
  };

  // Errors: kLimitExceeded; kUnsupported for left recursion, with the rule's name.
  static Result<ByteAutomaton> compile(const GrammarRules& grammar, const Limits& limits);
  static Result<ByteAutomaton> compile(const GrammarRules& grammar) { return compile(grammar, Limits{}); }

  bool spells_nothing() const { return !rules_[0].productive; }
  const Rule& rule(RuleId id) const { return rules_[id]; }
  size_t n_rules() const { return rules_.size(); }
  size_t n_states() const { return final_.size(); }
  size_t n_edges() const { return edges_.size(); }
  size_t n_bytes() const { return n_states() * 5 + n_edges() * sizeof(Edge) + blocks_.size() * sizeof(Block); }

  static bool is_block_state(StateId state) { return state >= kFirstBlockState; }
  // REQUIRES: the state is outside of all blocks.
  std::span<const Edge> edges(StateId state) const {
    return std::span(edges_).subspan(edge_begin_[state], edge_begin_[state + 1] - edge_begin_[state]);
  }
  bool is_final(StateId state) const { return !is_block_state(state) && final_[state]; }
  // From here the rule ends without a further byte.
  bool is_tail(StateId state) const { return !is_block_state(state) && tail_[state]; }
  // A state of the first rule, or of a repetition in it: no other rule of the grammar was called.
  bool is_outermost(StateId state) const {
    return is_block_state(state) ? block_of(state).outermost : outermost_[state];
  }
  const Block& block_of(StateId state) const;

 private:
  friend class AutomatonBuilder;

  std::vector<uint32_t> edge_begin_;  // [n_states + 1]
  std::vector<Edge> edges_;
  std::vector<bool> final_, tail_, outermost_;
  std::vector<Block> blocks_;         // ascending by base
  std::vector<Rule> rules_;           // those of the grammar, then bodies of blocks
};

struct Grammar::Parts {
  GrammarRules rules;
  ByteAutomaton automaton;
  bool free_text = false;  // special tokens may stand in the first rule and its repetitions, not in rules that it calls
};

// Compiles what a compiler of a notation has written. `what` names the source in messages.
// Errors: kLimitExceeded, kUnsupported (left recursion), kInvalidArgument when no text is one of the grammar.
Result<Grammar> make_grammar(GrammarRules rules, std::string_view what, bool free_text = false);

}  // namespace ibid
