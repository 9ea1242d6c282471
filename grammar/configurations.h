// Configurations: the positions in a grammar after the text read so far, for all of its parses at once. A configuration
// is a set of items (a state, and a stack of return states); a byte leads from one configuration to the next. This
// makes a deterministic automaton, which is built lazily: each transition is computed once, and is a table lookup
// afterwards.
//
// Stacks are shared and merged. All calls of a rule at one text position share one stack, whatever the calling rules
// (Tomita's graph-structured stack, Earley's origins); so the number of items is at most states times positions, for
// any number of parses. Equal stacks and equal configurations have equal numbers.
//
// A stack has one of two bottoms: kTextStack, at which the text is complete, or kOpenStack, which represents any stack,
// for results that hold for a rule with every caller.
//
// Not thread-safe. A configuration beyond the limits is kDead, and limit_reached() returns the reason; clear() frees
// memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/byte_automaton.h"
#include "grammar/compile_budget.h"
#include "grammar/grammar_rules.h"
#include "ibid/token.h"

namespace ibid {

using ConfigId = uint32_t;
using StackId = uint32_t;
inline constexpr StackId kOpenStack = 0;  // represents any callers of a rule
inline constexpr StackId kTextStack = 1;  // the text is complete when a rule returns to this stack

// An item of a configuration: a state, and the stack of states to which the state's rule returns.
struct StackItem {
  StateId state;
  StackId stack;
  auto operator<=>(const StackItem&) const = default;
};

class Configurations {
 public:
  static constexpr ConfigId kDead = 0;

  struct Limits {
    size_t max_bytes = 32u << 20;  // maximum memory
    size_t max_items = 10'000;     // maximum number of items of one configuration, temporary ones included
    size_t max_work = 10'000'000;  // maximum items visited between two calls of begin_work()
  };
  enum class LimitReached { kNone, kMemory, kItems, kWork };

  // `automaton` must outlive this object.
  Configurations(const ByteAutomaton& automaton, const Limits& limits);

  // Returns the configuration before any text.
  ConfigId start();
  // Returns the configuration after one more byte. kDead: no text of the grammar continues with this byte.
  ConfigId step(ConfigId config, uint8_t byte) {
    const Row& row = configs_[config].row;
    const size_t i = size_t{byte} - row.first;  // underflows to a very large number if byte < row.first
    if (i < row.next.size() && row.next[i] != kUnknown) return row.next[i];
    return row.next.empty() || i < row.next.size() ? compute_step(config, byte) : kDead;
  }
  // Returns the configuration after token `id`, along the edges that name tokens; edges on bytes do not count. tokens:
  // the token ids of ByteAutomaton::tokens().
  ConfigId step_token(ConfigId config, TokenId id, std::span<const TokenId> tokens);
  // Returns a configuration that accepts the texts that `a` or `b` accepts.
  ConfigId unite(ConfigId a, ConfigId b);
  // Returns the configuration of one item. REQUIRES: the item's state has edges on bytes or tokens.
  ConfigId at(StackItem item);
  // Returns the configuration after a rule has ended whose return states are those of `stack`.
  ConfigId after_rule(StackId stack);
  // Returns a stack with `return_to.state` on top of `return_to.stack`.
  StackId push(StackItem return_to);

  // True if the text may end in this configuration.
  bool may_end(ConfigId config) const { return configs_[config].may_end; }
  // True if a rule may end in this configuration and then return to kOpenStack, that is, to callers that are not known.
  bool reaches_open(ConfigId config) const { return configs_[config].reaches_open; }
  // The items of a configuration. The states of these items have edges on bytes or tokens.
  std::span<const StackItem> items(ConfigId config) const { return configs_[config].items; }
  std::span<const StackItem> returns(StackId stack) const { return stacks_[stack]; }
  // Sets bytes[b] to true for each byte b that may come next.
  void next_bytes(ConfigId config, std::array<bool, 256>& bytes) const;

  LimitReached limit_reached() const { return limit_reached_; }
  void begin_work() { work_ = 0; }
  // Drops all configurations and resets limit_reached(). All ids except kDead become invalid.
  void clear();
  // As clear(), but keeps `config`, and returns its new id. O(items of `config` and the stacks below them).
  ConfigId clear_except(ConfigId config);
  size_t n_bytes() const { return n_bytes_; }
  size_t n_configs() const { return configs_.size(); }
  size_t n_steps_computed() const { return n_steps_computed_; }
  // Number of items visited since construction.
  uint64_t n_work() const { return n_work_; }

 private:
  static constexpr ConfigId kUnknown = ~ConfigId{0};
  // The configurations that follow, by byte: from the first byte that can come next to the last one. Empty before the
  // first step.
  struct Row {
    uint8_t first = 0;
    std::vector<ConfigId> next;
  };
  struct Config {
    std::vector<StackItem> items;  // sorted
    bool may_end = false;
    bool reaches_open = false;
    Row row;
  };
  // Maps the hash of a list of items to the ids of the configurations or stacks with this hash, usually one.
  using Index = std::unordered_multimap<uint64_t, uint32_t>;

  ConfigId compute_step(ConfigId config, uint8_t byte);
  void allocate_row(ConfigId config);
  ConfigId close();
  void add_item(StackItem item);
  void follow(StackItem item, bool fresh);
  void follow_block(StackItem item);
  void call(RuleId rule, StackItem return_to);
  StackId stack_of(std::vector<StackItem> returns);
  ConfigId intern(std::vector<StackItem> items, bool may_end, bool reaches_open);
  bool spend(size_t n);
  void fail(LimitReached limit) {
    if (limit_reached_ == LimitReached::kNone) limit_reached_ = limit;
  }

  const ByteAutomaton& automaton_;
  const Limits limits_;
  std::vector<Config> configs_;
  std::vector<std::vector<StackItem>> stacks_;
  Index config_index_, stack_index_;
  ConfigId start_ = kUnknown;
  size_t n_bytes_ = 0;
  size_t work_ = 0;  // items visited since begin_work()
  uint64_t n_work_ = 0;
  size_t n_steps_computed_ = 0;
  LimitReached limit_reached_ = LimitReached::kNone;

  // Scratch memory for the configuration that is being computed.
  std::vector<StackItem> seeds_, todo_, kept_;
  std::vector<uint64_t> seen_;  // hash table of the items that were added; 0: a free slot
  size_t n_seen_ = 0;
  // Calls to enter, by Rule::rank: the called rule, and the states to which it returns.
  std::map<uint32_t, std::pair<RuleId, std::vector<StackItem>>> calls_;
  bool may_end_ = false, reaches_open_ = false;
};

// --- Products: texts that match several regular grammars at once, or match some grammars and not others. Used for
// strings with a pattern, a format and a length, and for names of undeclared properties.

// A regular grammar that can be a factor of several products. It is compiled once and keeps its computed
// configurations. The budget must outlive it.
class RegularLanguage {
 public:
  // Compiles a grammar. REQUIRES: the first rule has finitely many configurations. Errors: those of
  // ByteAutomaton::compile(); kLimitExceeded, kCancelled.
  static Result<RegularLanguage> compile(const GrammarRules& grammar, CompileBudget& budget);

  Configurations& configs() { return *configs_; }
  // Charges the memory added since the last call to the budget. Returns false if the budget is exceeded.
  bool account(CompileBudget& budget);

 private:
  RegularLanguage(ByteAutomaton automaton, CompileBudget& budget);

  std::unique_ptr<const ByteAutomaton> automaton_;  // on the heap, so that the automaton's address survives a move
  std::unique_ptr<Configurations> configs_;
  HeldBytes held_;
  uint64_t n_accounted_ = 0;
};

struct RegularPart {
  RegularLanguage* language;
  bool excluded = false;  // texts of the product must not be in this language
};

struct RegularProduct {
  ExprGraph graph;    // the edges' expressions are in the rules given to multiply_regular()
  bool empty = true;  // true if no text matches all parts
};

// Returns the product of the languages as a graph. REQUIRES: the first part is not excluded. Errors: kLimitExceeded
// (also for more than max_states states), kCancelled.
Result<RegularProduct> multiply_regular(const std::vector<RegularPart>& parts, size_t max_states, GrammarRules& rules,
                                        CompileBudget& budget);
// Returns true if some text matches all parts: the text is in each language that is not excluded, and in no excluded
// one.
Result<bool> share_a_text(const std::vector<RegularPart>& parts, size_t max_states, CompileBudget& budget);

}  // namespace ibid
