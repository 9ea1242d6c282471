// Configurations: where a text that was read so far stands in a grammar, in all of its readings at once. A
// configuration is a set of items (a state, and a stack of rules to return to); a byte leads from one to the next. So
// it is a deterministic automaton, made as far as texts need it, and never twice: a transition that was computed is a
// table lookup.
//
// Stacks are shared and merged. The rules that are called at the same place have one stack, whichever rule called them
// (Tomita's graph-structured stack, Earley's origins); so there are never more items than states times places, however
// many readings a text has. Equal stacks and equal configurations have equal numbers.
//
// There are two ends of a stack: that of the text, and an open one, which stands for any stack. With it one finds out
// what holds for a rule with every caller.
//
// Not thread-safe. A configuration beyond the limits is kDead, and trouble() says why; clear() makes room.
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

namespace ibid {

using ConfigId = uint32_t;
using StackId = uint32_t;
inline constexpr StackId kOpenStack = 0;  // any caller
inline constexpr StackId kTextStack = 1;  // after it the text is complete

// A state, and where its rule returns to.
struct StackItem {
  StateId state;
  StackId stack;
  auto operator<=>(const StackItem&) const = default;
};

class Configurations {
 public:
  static constexpr ConfigId kDead = 0;

  struct Limits {
    size_t max_bytes = 32u << 20;   // of memory
    size_t max_items = 10'000;      // of one configuration, with those on the way to it
    size_t max_work = 10'000'000;   // items that are looked at, between two calls of begin_work()
  };
  enum class Trouble { kNone, kMemory, kItems, kWork };

  // `automaton` must outlive it.
  Configurations(const ByteAutomaton& automaton, const Limits& limits);

  // In front of a text.
  ConfigId start();
  // Behind one byte more. kDead: no text of the grammar goes on like that.
  ConfigId step(ConfigId config, uint8_t byte) {
    const Row* row = configs_[config].row.get();
    if (row != nullptr && (*row)[byte] != kUnknown) return (*row)[byte];
    return compute_step(config, byte);
  }
  // With one item, in front of a byte of its state. REQUIRES: the state has edges on bytes.
  ConfigId at(StackItem item);
  // Behind the end of a rule that returns to `stack`.
  ConfigId behind(StackId stack);
  // A stack of one return.
  StackId push(StackItem return_to);

  // The text may end here.
  bool may_end(ConfigId config) const { return configs_[config].may_end; }
  // The rule that was called from an open stack may end here.
  bool reaches_open(ConfigId config) const { return configs_[config].reaches_open; }
  // Items in front of a byte.
  std::span<const StackItem> items(ConfigId config) const { return configs_[config].items; }
  std::span<const StackItem> returns(StackId stack) const { return stacks_[stack]; }
  // Adds the bytes that may come next.
  void next_bytes(ConfigId config, std::array<bool, 256>& bytes) const;

  Trouble trouble() const { return trouble_; }
  void begin_work() { work_ = 0; }
  // Forgets everything, trouble too: all numbers but kDead have lost their meaning.
  void clear();
  size_t n_bytes() const { return n_bytes_; }
  size_t n_configs() const { return configs_.size(); }
  size_t n_steps_computed() const { return n_steps_computed_; }
  // Items that were looked at, since construction.
  uint64_t n_work() const { return n_work_; }

 private:
  static constexpr ConfigId kUnknown = ~ConfigId{0};
  using Row = std::array<ConfigId, 256>;
  struct Config {
    std::vector<StackItem> items;  // ascending
    bool may_end = false;
    bool reaches_open = false;
    std::unique_ptr<Row> row;      // made with the first step
  };
  // A hash of items -> what they are; few of different items have the same.
  using Index = std::unordered_multimap<uint64_t, uint32_t>;

  ConfigId compute_step(ConfigId config, uint8_t byte);
  ConfigId close();
  void add_item(StackItem item);
  void follow(StackItem item, bool fresh);
  void follow_block(StackItem item);
  void call(RuleId rule, StackItem return_to);
  StackId stack_of(std::vector<StackItem> returns);
  ConfigId intern(std::vector<StackItem> items, bool may_end, bool reaches_open);
  bool spend(size_t n);
  void fail(Trouble trouble) {
    if (trouble_ == Trouble::kNone) trouble_ = trouble;
  }

  const ByteAutomaton& automaton_;
  const Limits limits_;
  std::vector<Config> configs_;
  std::vector<std::vector<StackItem>> stacks_;
  Index config_index_, stack_index_;
  ConfigId start_ = kUnknown;
  size_t n_bytes_ = 0;
  size_t work_ = 0;      // since begin_work()
  uint64_t n_work_ = 0;
  size_t n_steps_computed_ = 0;
  Trouble trouble_ = Trouble::kNone;

  // Parts of the configuration that is being made.
  std::vector<StackItem> seeds_, todo_, kept_;
  std::vector<uint64_t> seen_;                        // a hash table of items; 0: free
  size_t n_seen_ = 0;
  std::map<uint32_t, std::pair<RuleId, std::vector<StackItem>>> calls_;  // by rank
  bool may_end_ = false, reaches_open_ = false;
};

// --- Texts that satisfy several regular grammars at once, or all of some and not those of others: strings
// with a pattern, a format and a length, or names of properties that are not declared.

// A regular grammar that may be a part of several products: it is compiled once, and keeps what was found out about it.
// The budget must outlive it.
class RegularLanguage {
 public:
  // The texts of the first rule, which has finitely many configurations.
  // Errors: those of ByteAutomaton::compile(); kLimitExceeded, kCancelled.
  static Result<RegularLanguage> compile(const GrammarRules& grammar, CompileBudget& budget);

  Configurations& configs() { return *configs_; }
  // Takes what it has become of the budget. False: that is used up.
  bool account(CompileBudget& budget);

 private:
  RegularLanguage(ByteAutomaton automaton, CompileBudget& budget);

  std::unique_ptr<const ByteAutomaton> automaton_;  // where it is, also when this is moved
  std::unique_ptr<Configurations> configs_;
  HeldBytes held_;
  uint64_t n_accounted_ = 0;
};

struct RegularPart {
  RegularLanguage* language;
  bool excluded = false;  // texts must not be of this grammar
};

struct RegularProduct {
  ExprGraph graph;      // edges are byte ranges of the rules that were given
  bool empty = true;    // no text satisfies them
};

// REQUIRES: the first part is not excluded. At most max_states states.
// Errors: kLimitExceeded, kCancelled.
Result<RegularProduct> multiply_regular(const std::vector<RegularPart>& parts, size_t max_states, GrammarRules& rules,
                                        CompileBudget& budget);
// Whether any text satisfies them.
Result<bool> share_a_text(const std::vector<RegularPart>& parts, size_t max_states, CompileBudget& budget);

}  // namespace ibid
