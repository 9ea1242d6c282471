#include "grammar/configurations.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace ibid {
namespace {

// Never 0, which marks a free slot.
uint64_t key_of(StackItem item) { return (uint64_t{item.stack} << 32 | item.state) + 1; }

uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
  return x ^ (x >> 29);
}

uint64_t hash_items(const std::vector<StackItem>& items, uint64_t seed) {
  uint64_t hash = seed;
  for (const StackItem& item : items) hash = mix_bits(hash * 31 + key_of(item));
  return hash;
}

constexpr size_t kItemBytes = sizeof(StackItem);
constexpr size_t kStackBytes = sizeof(std::vector<StackItem>);
constexpr size_t kIndexBytes = 64;  // approximate bytes of an entry of an index

}  // namespace

Configurations::Configurations(const ByteAutomaton& automaton, const Limits& limits)
    : automaton_(automaton), limits_(limits) {
  clear();
}

void Configurations::clear() {
  configs_.clear();
  configs_.emplace_back();  // configuration 0 is kDead
  stacks_.assign(2, {});
  config_index_.clear();
  stack_index_.clear();
  start_ = kUnknown;
  n_bytes_ = 0;
  limit_reached_ = LimitReached::kNone;
  seen_.assign(64, 0);
  n_seen_ = 0;
}

ConfigId Configurations::clear_except(ConfigId config) {
  const Config kept = std::move(configs_[config]);
  const std::vector<std::vector<StackItem>> stacks = std::move(stacks_);
  clear();
  std::vector<bool> is_used(stacks.size());
  for (const StackItem& item : kept.items) is_used[item.stack] = true;
  for (size_t id = stacks.size(); id-- > 0;) {  // a stack refers only to stacks with lower ids, so go backwards
    for (const StackItem& item : stacks[id]) is_used[item.stack] = is_used[item.stack] || is_used[id];
  }
  std::vector<StackId> new_ids(stacks.size());
  const auto renamed = [&](std::vector<StackItem> items) {
    for (StackItem& item : items) item.stack = new_ids[item.stack];
    std::ranges::sort(items);
    return items;
  };
  new_ids[kTextStack] = kTextStack;
  for (size_t id = kTextStack + 1; id < stacks.size(); ++id) {
    if (is_used[id]) new_ids[id] = stack_of(renamed(stacks[id]));
  }
  return intern(renamed(kept.items), kept.may_end, kept.reaches_open);
}

bool Configurations::spend(size_t n) {
  work_ += n;
  n_work_ += n;
  if (work_ > limits_.max_work) fail(LimitReached::kWork);
  if (n_bytes_ > limits_.max_bytes) fail(LimitReached::kMemory);
  return limit_reached_ == LimitReached::kNone;
}

ConfigId Configurations::start() {
  if (start_ == kUnknown) {
    seeds_.clear();
    if (automaton_.rule(0).productive) seeds_.push_back({automaton_.rule(0).start, kTextStack});
    start_ = close();
  }
  return start_;
}

ConfigId Configurations::at(StackItem item) { return intern({item}, false, false); }

ConfigId Configurations::after_rule(StackId stack) {
  if (stack == kTextStack || stack == kOpenStack) return intern({}, stack == kTextStack, stack == kOpenStack);
  seeds_ = stacks_[stack];
  return close();
}

StackId Configurations::push(StackItem return_to) { return stack_of({return_to}); }

void Configurations::allocate_row(ConfigId config) {
  std::array<bool, 256> bytes{};
  next_bytes(config, bytes);
  size_t first = 0, end = bytes.size();
  while (first < end && !bytes[first]) ++first;
  while (end > first && !bytes[end - 1]) --end;
  Row& row = configs_[config].row;
  if (first == end) first = 0, end = 1;  // only tokens can come next, and no bytes: store one entry, kDead
  row.first = static_cast<uint8_t>(first);
  row.next.reserve(end - first);
  for (size_t byte = first; byte < end; ++byte) row.next.push_back(bytes[byte] ? kUnknown : kDead);
  n_bytes_ += row.next.size() * sizeof(ConfigId);
}

ConfigId Configurations::compute_step(ConfigId config, uint8_t byte) {
  if (configs_[config].items.empty()) return kDead;
  if (configs_[config].row.next.empty()) {
    allocate_row(config);
    return step(config, byte);
  }
  ++n_steps_computed_;
  seeds_.clear();
  if (!spend(configs_[config].items.size())) return kDead;
  for (const StackItem item : configs_[config].items) {
    if (ByteAutomaton::is_block_state(item.state)) {
      const auto& block = automaton_.block_of(item.state);
      const bool taken = std::ranges::any_of(
          block.ranges, [&](const ByteRange& range) { return range.first <= byte && byte <= range.last; });
      if (taken) seeds_.push_back({block.next(item.state), item.stack});
      continue;
    }
    for (const ByteAutomaton::Edge& edge : automaton_.edges(item.state)) {
      if (edge.kind == ByteAutomaton::Edge::Kind::kBytes && edge.first <= byte && byte <= edge.last) {
        seeds_.push_back({edge.target, item.stack});
      }
    }
  }
  const ConfigId next = close();
  if (limit_reached_ != LimitReached::kNone) return kDead;
  Row& row = configs_[config].row;
  return row.next[byte - row.first] = next;
}

ConfigId Configurations::step_token(ConfigId config, TokenId id, std::span<const TokenId> tokens) {
  using Kind = ByteAutomaton::Edge::Kind;
  seeds_.clear();
  if (tokens.empty() || !spend(configs_[config].items.size())) return kDead;
  for (const StackItem item : configs_[config].items) {
    if (ByteAutomaton::is_block_state(item.state)) continue;
    for (const ByteAutomaton::Edge& edge : automaton_.edges(item.state)) {
      const bool refers = edge.kind == Kind::kToken || edge.kind == Kind::kOtherToken;
      if (!refers || (tokens[edge.rule] == id) != (edge.kind == Kind::kToken)) continue;
      seeds_.push_back({edge.target, item.stack});
    }
  }
  const ConfigId next = close();
  return limit_reached_ == LimitReached::kNone ? next : kDead;
}

ConfigId Configurations::unite(ConfigId a, ConfigId b) {
  if (a == kDead || b == kDead) return a + b;
  std::vector<StackItem> items;
  std::ranges::set_union(configs_[a].items, configs_[b].items, std::back_inserter(items));
  return intern(std::move(items), may_end(a) || may_end(b), reaches_open(a) || reaches_open(b));
}

// Returns the configuration of all items that seeds_ reach without reading a byte. Phase 1 handles rules that end at an
// item of seeds_: it returns to their callers. Phase 2 enters the rules that are called, in the order of Rule::rank, so
// that all callers of a rule are known when the stack of its returns is made. It handles no ends of rules, because a
// call of a rule that may be empty also leads directly to the state after the call.
ConfigId Configurations::close() {
  seen_.assign(64, 0);
  n_seen_ = 0;
  kept_.clear();
  todo_.clear();
  calls_.clear();
  may_end_ = reaches_open_ = false;
  for (const StackItem seed : seeds_) add_item(seed);
  for (bool fresh = false;; fresh = true) {
    while (!todo_.empty()) {
      const StackItem item = todo_.back();
      todo_.pop_back();
      if (!spend(1)) return kDead;
      follow(item, fresh);
    }
    if (calls_.empty()) break;
    auto [rule, returns] = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
    if (!spend(returns.size())) return kDead;
    add_item({automaton_.rule(rule).start, stack_of(std::move(returns))});
  }
  if (limit_reached_ != LimitReached::kNone) return kDead;
  std::ranges::sort(kept_);
  return intern(std::move(kept_), may_end_, reaches_open_);
}

void Configurations::add_item(StackItem item) {
  if (2 * n_seen_ >= seen_.size()) {
    if (n_seen_ > limits_.max_items) return fail(LimitReached::kItems);
    std::vector<uint64_t> larger(seen_.size() * 4);
    for (const uint64_t key : seen_) {
      if (key == 0) continue;
      size_t i = mix_bits(key) & (larger.size() - 1);
      while (larger[i] != 0) i = (i + 1) & (larger.size() - 1);
      larger[i] = key;
    }
    seen_ = std::move(larger);
  }
  const uint64_t key = key_of(item);
  size_t i = mix_bits(key) & (seen_.size() - 1);
  while (seen_[i] != 0) {
    if (seen_[i] == key) return;
    i = (i + 1) & (seen_.size() - 1);
  }
  seen_[i] = key;
  ++n_seen_;
  todo_.push_back(item);
}

void Configurations::follow(StackItem item, bool fresh) {
  if (ByteAutomaton::is_block_state(item.state)) return follow_block(item);
  if (automaton_.is_final(item.state) && !fresh) {
    if (item.stack == kTextStack) may_end_ = true;
    if (item.stack == kOpenStack) reaches_open_ = true;
    for (const StackItem& returned : stacks_[item.stack]) add_item(returned);
  }
  bool reads = false;
  for (const ByteAutomaton::Edge& edge : automaton_.edges(item.state)) {
    switch (edge.kind) {
      case ByteAutomaton::Edge::Kind::kBytes:
      case ByteAutomaton::Edge::Kind::kToken:
      case ByteAutomaton::Edge::Kind::kOtherToken: reads = true; break;
      case ByteAutomaton::Edge::Kind::kEmpty: add_item({edge.target, item.stack}); break;
      case ByteAutomaton::Edge::Kind::kCall:
        call(edge.rule, {edge.target, item.stack});
        if (automaton_.rule(edge.rule).nullable) add_item({edge.target, item.stack});
        break;
    }
  }
  if (reads) kept_.push_back(item);
}

void Configurations::follow_block(StackItem item) {
  const auto& block = automaton_.block_of(item.state);
  if (block.may_leave(item.state)) add_item({block.after, item.stack});
  if (block.dead || block.is_full(item.state)) return;
  if (!block.calls) {
    kept_.push_back(item);
    return;
  }
  call(block.rule, {block.next(item.state), item.stack});
}

// If nothing follows a call in its rule (a tail call), the called rule returns directly to the states to which the
// caller would return.
void Configurations::call(RuleId rule, StackItem return_to) {
  auto& returns = calls_.try_emplace(automaton_.rule(rule).rank, rule, std::vector<StackItem>()).first->second.second;
  if (automaton_.is_tail(return_to.state) && return_to.stack > kTextStack) {
    const std::vector<StackItem>& past = stacks_[return_to.stack];
    returns.insert(returns.end(), past.begin(), past.end());
  } else {
    returns.push_back(return_to);
  }
}

StackId Configurations::stack_of(std::vector<StackItem> returns) {
  std::ranges::sort(returns);
  returns.erase(std::unique(returns.begin(), returns.end()), returns.end());
  if (returns.size() == 1 && automaton_.is_tail(returns[0].state)) return returns[0].stack;
  const uint64_t hash = hash_items(returns, 1);
  for (auto [at, end] = stack_index_.equal_range(hash); at != end; ++at) {
    if (stacks_[at->second] == returns) return at->second;
  }
  const auto id = static_cast<StackId>(stacks_.size());
  n_bytes_ += kStackBytes + returns.size() * kItemBytes + kIndexBytes;
  stack_index_.emplace(hash, id);
  stacks_.push_back(std::move(returns));
  return id;
}

ConfigId Configurations::intern(std::vector<StackItem> items, bool may_end, bool reaches_open) {
  if (items.empty() && !may_end && !reaches_open) return kDead;
  const uint64_t hash = hash_items(items, 2 + may_end + 2 * reaches_open);
  for (auto [at, end] = config_index_.equal_range(hash); at != end; ++at) {
    const Config& config = configs_[at->second];
    if (config.items == items && config.may_end == may_end && config.reaches_open == reaches_open) return at->second;
  }
  const auto id = static_cast<ConfigId>(configs_.size());
  n_bytes_ += sizeof(Config) + items.size() * kItemBytes + kIndexBytes;
  items.shrink_to_fit();
  configs_.push_back({.items = std::move(items), .may_end = may_end, .reaches_open = reaches_open, .row = {}});
  config_index_.emplace(hash, id);
  return id;
}

void Configurations::next_bytes(ConfigId config, std::array<bool, 256>& bytes) const {
  const auto add = [&](uint8_t first, uint8_t last) { std::fill(&bytes[first], &bytes[last] + 1, true); };
  for (const StackItem item : configs_[config].items) {
    if (ByteAutomaton::is_block_state(item.state)) {
      for (const ByteRange& range : automaton_.block_of(item.state).ranges) add(range.first, range.last);
      continue;
    }
    for (const ByteAutomaton::Edge& edge : automaton_.edges(item.state)) {
      if (edge.kind == ByteAutomaton::Edge::Kind::kBytes) add(edge.first, edge.last);
    }
  }
}

namespace {

constexpr size_t kBytesOfState = 150;  // approximate bytes of a state with its index entry

using ProductState = std::vector<ConfigId>;

struct ProductStateHash {
  size_t operator()(const ProductState& state) const {
    uint64_t hash = 0;
    for (const ConfigId config : state) hash = (hash ^ config) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
    return hash;
  }
};

class ProductWalk {
 public:
  // rules: nullptr if the caller only needs to know whether some text matches.
  ProductWalk(const std::vector<RegularPart>& parts, size_t max_states, GrammarRules* rules, CompileBudget& budget)
      : parts_(parts), max_states_(max_states), rules_(rules), budget_(budget), held_(budget) {}

  Result<RegularProduct> walk() {
    ProductState start;
    for (const RegularPart& part : parts_) start.push_back(part.language->configs().start());
    if (!is_alive(start)) return std::move(out_);
    number_of(start);
    for (uint32_t at = 0; at < states_.size(); ++at) {
      if (states_.size() > max_states_) {
        return {ErrorCode::kLimitExceeded,
                "the constraints of a string need more than " + std::to_string(max_states_) + " states"};
      }
      const ProductState state = *states_[at];
      if (is_final(state)) {
        out_.empty = false;
        if (rules_ == nullptr) return std::move(out_);
        out_.graph.finals.push_back(at);
      }
      add_edges(at, state);
      TRY(account());
    }
    out_.graph.n_states = static_cast<uint32_t>(states_.size());
    return std::move(out_);
  }

 private:
  Status account() {
    held_.set(states_.size() * (kBytesOfState + 2 * parts_.size() * sizeof(ConfigId)) +
              out_.graph.edges.size() * sizeof(ExprGraph::Edge));
    for (const RegularPart& part : parts_) {
      part.language->account(budget_);
      if (part.language->configs().limit_reached() == Configurations::LimitReached::kNone) continue;
      return {ErrorCode::kLimitExceeded, "the constraints of a string take too much memory"};
    }
    return budget_.status("the constraints of a string");
  }
  bool is_alive(const ProductState& state) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].excluded && state[i] == Configurations::kDead) return false;
    }
    return true;
  }
  bool is_final(const ProductState& state) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].language->configs().may_end(state[i]) == parts_[i].excluded) return false;
    }
    return true;
  }
  uint32_t number_of(const ProductState& state) {
    const auto [found, is_new] = numbers_.emplace(state, static_cast<uint32_t>(states_.size()));
    if (is_new) states_.push_back(&found->first);
    return found->second;
  }

  void add_edges(uint32_t at, const ProductState& state) {
    std::array<bool, 256> possible{};
    parts_[0].language->configs().next_bytes(state[0], possible);
    int64_t last_target = -1;
    uint32_t first_byte = 0;
    size_t n_steps = 1;
    ProductState next(state.size());
    for (uint32_t byte = 0; byte <= 256; ++byte) {
      int64_t target = -1;
      if (byte < 256 && possible[byte]) {
        for (size_t i = 0; i < parts_.size(); ++i) {
          Configurations& configs = parts_[i].language->configs();
          configs.begin_work();
          next[i] = configs.step(state[i], static_cast<uint8_t>(byte));
        }
        n_steps += parts_.size();
        if (is_alive(next)) target = number_of(next);
      }
      if (target == last_target) continue;
      if (last_target >= 0 && rules_ != nullptr) {
        const ExprId label = rules_->byte_range(static_cast<uint8_t>(first_byte), static_cast<uint8_t>(byte - 1));
        out_.graph.add_edge(at, label, static_cast<uint32_t>(last_target));
      }
      last_target = target;
      first_byte = byte;
    }
    budget_.spend(n_steps);
  }

  const std::vector<RegularPart>& parts_;
  const size_t max_states_;
  GrammarRules* const rules_;
  CompileBudget& budget_;
  HeldBytes held_;
  std::unordered_map<ProductState, uint32_t, ProductStateHash> numbers_;
  std::vector<const ProductState*> states_;
  RegularProduct out_;
};

}  // namespace

RegularLanguage::RegularLanguage(ByteAutomaton automaton, CompileBudget& budget)
    : automaton_(std::make_unique<const ByteAutomaton>(std::move(automaton))),
      configs_(std::make_unique<Configurations>(*automaton_, Configurations::Limits{.max_work = 1'000'000})),
      held_(budget) {}

Result<RegularLanguage> RegularLanguage::compile(const GrammarRules& grammar, CompileBudget& budget) {
  TRY_ASSIGN(ByteAutomaton automaton, ByteAutomaton::compile(grammar));
  budget.spend(automaton.n_states() + automaton.n_edges());
  RegularLanguage out(std::move(automaton), budget);
  out.account(budget);
  TRY(budget.status("the constraints of a string"));
  return out;
}

bool RegularLanguage::account(CompileBudget& budget) {
  const uint64_t n_work = configs_->n_work();
  budget.spend((n_work - std::exchange(n_accounted_, n_work)) * CompileBudget::kItemCost);
  return held_.set(automaton_->n_bytes() + configs_->n_bytes());
}

Result<RegularProduct> multiply_regular(const std::vector<RegularPart>& parts, size_t max_states, GrammarRules& rules,
                                        CompileBudget& budget) {
  CHECK(!parts.empty() && !parts[0].excluded);
  return ProductWalk(parts, max_states, &rules, budget).walk();
}

Result<bool> share_a_text(const std::vector<RegularPart>& parts, size_t max_states, CompileBudget& budget) {
  CHECK(!parts.empty() && !parts[0].excluded);
  TRY_ASSIGN(const RegularProduct product, ProductWalk(parts, max_states, nullptr, budget).walk());
  return !product.empty;
}

}  // namespace ibid
