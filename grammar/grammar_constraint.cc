#include "grammar/grammar_constraint.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace ibid {
namespace {

constexpr uint32_t kShortTrie = 0, kLongTrie = 1, kSpecialTrie = 2, kFirstTrie = 3;
constexpr size_t kMapBytes = 100;  // approximate overhead of a map entry

}  // namespace

TokenMasks::TokenMasks(const ByteAutomaton& automaton, const TokenTexts& vocabulary, Configurations& configs,
                       bool free_text)
    : automaton_(automaton), vocabulary_(vocabulary), configs_(configs), free_text_(free_text) {}

void TokenMasks::clear() {
  locals_.clear();
  wholes_.clear();
  n_bytes_ = 0;
}

void TokenMasks::allowed(ConfigId config, bool in_front, TokenMask& mask) {
  const std::vector<StackItem> items(configs_.items(config).begin(), configs_.items(config).end());
  if (items.empty()) return;
  for (const StackItem& item : items) {
    if (!free_text_ || !automaton_.is_outermost(item.state)) continue;
    add_config(vocabulary_.special_tokens(), kSpecialTrie, configs_.at(item), mask);
  }
  if (in_front && vocabulary_.first_tokens() != nullptr) {
    return add_config(*vocabulary_.first_tokens(), kFirstTrie, config, mask);
  }
  for (const uint32_t number : {kShortTrie, kLongTrie}) {
    const TokenTrie& trie = number == kShortTrie ? vocabulary_.short_tokens() : vocabulary_.long_tokens();
    bool done = items.size() <= kMostItems;
    for (size_t i = 0; done && i < items.size(); ++i) done = add_item(trie, number, items[i], mask);
    if (!done) add_config(trie, number, config, mask);
  }
}

bool TokenMasks::add_item(const TokenTrie& trie, uint32_t trie_number, StackItem item, TokenMask& mask) {
  LocalKey key = {trie_number, 0, shortened(item.state, trie.max_length)};
  for (StackId stack = item.stack;;) {
    key[1] = stack == kTextStack;
    const Local& known = local(trie, key);
    if (configs_.trouble() != Configurations::Trouble::kNone) return true;
    if (!known.too_many_exits) {
      add(known.tokens, mask);
      if (known.exits.empty()) return true;
      const ConfigId behind = configs_.behind(stack);
      Walk out;
      for (const uint32_t node : known.exits) walk(trie, node, behind, out);
      for (const TokenId id : out.ids) mask.add(id);
      return true;
    }
    const std::span<const StackItem> returns = configs_.returns(stack);
    if (returns.size() != 1 || key.size() == 2 + kMostFrames) return false;
    key.push_back(shortened(returns[0].state, trie.max_length));
    stack = returns[0].stack;
  }
}

void TokenMasks::add_config(const TokenTrie& trie, uint32_t trie_number, ConfigId config, TokenMask& mask) {
  const auto found = wholes_.find({trie_number, config});
  if (found != wholes_.end()) return add(found->second, mask);
  Walk out;
  walk(trie, 0, config, out);
  if (configs_.trouble() != Configurations::Trouble::kNone) return;
  const TokenList& list = wholes_[{trie_number, config}] = as_list(std::move(out.ids));
  n_bytes_ += kMapBytes + bytes_of(list);
  add(list, mask);
}

const TokenMasks::Local& TokenMasks::local(const TokenTrie& trie, const LocalKey& key) {
  static const Local kNone;
  const auto found = locals_.find(key);
  if (found != locals_.end()) return found->second;
  StackId stack = key[1] != 0 ? kTextStack : kOpenStack;
  for (size_t i = key.size(); i-- > 3;) stack = configs_.push({key[i], stack});
  Walk out;
  Local known;
  known.too_many_exits = !walk(trie, 0, configs_.at({key[2], stack}), out);
  if (configs_.trouble() != Configurations::Trouble::kNone) return kNone;
  if (!known.too_many_exits) {
    known.tokens = as_list(std::move(out.ids));
    known.exits = std::move(out.exits);
    known.exits.shrink_to_fit();
  }
  n_bytes_ += kMapBytes + bytes_of(known.tokens) + known.exits.size() * sizeof(uint32_t);
  return locals_[key] = std::move(known);
}

bool TokenMasks::walk(const TokenTrie& trie, uint32_t node, ConfigId config, Walk& out) {
  path_.resize(std::max(path_.size(), trie.max_length + 1));
  path_[trie.nodes[node].depth] = config;
  const auto take = [&](uint32_t at) {
    for (uint32_t i = trie.nodes[at].token_begin; i < trie.nodes[at + 1].token_begin; ++i) {
      out.ids.push_back(trie.tokens[i]);
    }
  };
  if (node != 0) take(node);  // a token may end at the node where the walk resumes
  const uint32_t end = trie.nodes[node].end;
  for (uint32_t at = node + 1; at < end;) {
    const TokenTrie::Node& here = trie.nodes[at];
    ++n_nodes_walked_;
    const ConfigId next = configs_.step(path_[here.depth - 1], here.byte);
    if (next == Configurations::kDead) {
      if (configs_.trouble() != Configurations::Trouble::kNone) return true;
      at = here.end;
      continue;
    }
    path_[here.depth] = next;
    if (configs_.reaches_open(next)) {
      out.exits.push_back(at);
      if (out.exits.size() > kMostExits) return false;
    }
    if (!configs_.items(next).empty() || configs_.may_end(next)) take(at);
    ++at;
  }
  return true;
}

// Returns a state whose count allows the same texts for `horizon` bytes: one state for as many counts as possible.
StateId TokenMasks::shortened(StateId state, size_t horizon) const {
  if (!ByteAutomaton::is_block_state(state)) return state;
  const auto& block = automaton_.block_of(state);
  const uint32_t k = state - block.base;
  const uint32_t goal = k < block.min ? block.min : block.max;
  if (goal == kUnbounded || goal - k <= horizon) return state;
  return block.base + (goal - static_cast<uint32_t>(horizon) - 1);
}

TokenMasks::TokenList TokenMasks::as_list(std::vector<TokenId> ids) const {
  const size_t n_words = (vocabulary_.size() + 63) / 64;
  if (ids.size() * sizeof(TokenId) <= n_words * sizeof(uint64_t)) {
    ids.shrink_to_fit();
    return {.ids = std::move(ids), .words = {}};
  }
  TokenList list;
  list.words.resize(n_words);
  for (const TokenId id : ids) {
    const auto i = static_cast<size_t>(id);
    list.words[i / 64] |= uint64_t{1} << (i % 64);
  }
  return list;
}

void TokenMasks::add(const TokenList& list, TokenMask& mask) {
  mask.add_words(list.words);
  for (const TokenId id : list.ids) mask.add(id);
}

size_t TokenMasks::bytes_of(const TokenList& list) {
  return list.ids.size() * sizeof(TokenId) + list.words.size() * sizeof(uint64_t);
}

namespace {

using Trouble = Configurations::Trouble;

// Maximum number of forced bytes per proposal. A draft has only a few tokens.
constexpr size_t kMostForcedBytes = 256;

Configurations::Limits config_limits(size_t max_bytes) {
  Configurations::Limits limits;
  limits.max_bytes = max_bytes / 2;
  return limits;
}

}  // namespace

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar::Parts> grammar,
                               std::shared_ptr<const TokenTexts> vocabulary, size_t max_bytes)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      max_mask_bytes_(max_bytes / 2),
      configs_(grammar_->automaton, config_limits(max_bytes)),
      masks_(grammar_->automaton, *vocabulary_, configs_, grammar_->free_text) {}

std::string_view GrammarMatcher::bytes_at(const GrammarPlace& place, size_t i) const {
  return i == 0 ? vocabulary_->first_bytes(place.ids[0]) : vocabulary_->bytes(place.ids[i]);
}

ConfigId GrammarMatcher::read(ConfigId config, std::string_view bytes) {
  for (const char c : bytes) {
    if (config == Configurations::kDead) break;
    config = configs_.step(config, static_cast<uint8_t>(c));
  }
  return config;
}

bool GrammarMatcher::find(GrammarPlace& place) {
  if (place.generation != generation_) {
    ConfigId config = configs_.start();
    for (size_t i = 0; i < place.ids.size(); ++i) config = read(config, bytes_at(place, i));
    if (configs_.trouble() != Trouble::kNone) return false;
    place.config = config;
    place.generation = generation_;
  }
  return true;
}

void GrammarMatcher::forget() {
  configs_.clear();
  masks_.clear();
  ++generation_;
}

bool GrammarMatcher::try_again(size_t n_tried) {
  const bool memory = configs_.trouble() == Trouble::kMemory;
  forget();
  return memory && n_tried == 0;
}

Status GrammarMatcher::allowed(GrammarPlace& place, TokenMask& mask) {
  const std::lock_guard lock(mutex_);
  if (masks_.n_bytes() > max_mask_bytes_) masks_.clear();
  const TokenMask before = mask;
  for (size_t n_tried = 0;; ++n_tried) {
    configs_.begin_work();
    if (find(place)) masks_.allowed(place.config, place.ids.empty(), mask);
    if (configs_.trouble() == Trouble::kNone) return {};
    mask = before;
    if (!try_again(n_tried)) break;
  }
  return {ErrorCode::kLimitExceeded,
          "the grammar is too ambiguous for the answer so far, or the answer is nested "
          "too deeply"};
}

bool GrammarMatcher::may_end(GrammarPlace& place) {
  const std::lock_guard lock(mutex_);
  for (size_t n_tried = 0;; ++n_tried) {
    configs_.begin_work();
    if (find(place)) return configs_.may_end(place.config);
    if (!try_again(n_tried)) return false;
  }
}

void GrammarMatcher::push(GrammarPlace& place, TokenId id) {
  const std::lock_guard lock(mutex_);
  place.ids.push_back(id);
  const uint64_t generation = std::exchange(place.generation, 0);  // the ConfigId does not include this token yet
  if (generation != generation_) return;
  configs_.begin_work();
  place.config = read(place.config, bytes_at(place, place.ids.size() - 1));
  if (configs_.trouble() != Trouble::kNone)
    return forget();  // after a limit: the next call starts anew, or reports the error
  place.generation = generation;
}

void GrammarMatcher::propose(GrammarPlace& place, size_t n_most, Tokens& ids) {
  const std::lock_guard lock(mutex_);
  configs_.begin_work();
  std::string forced;
  std::vector<bool> outermost;  // by byte: a special token may begin here
  if (find(place)) {
    for (ConfigId at = place.config; forced.size() < kMostForcedBytes && !configs_.may_end(at);) {
      std::array<bool, 256> next{};
      configs_.next_bytes(at, next);
      const auto first = std::ranges::find(next, true);
      if (first == next.end() || std::find(first + 1, next.end(), true) != next.end()) break;
      const auto byte = static_cast<uint8_t>(first - next.begin());
      outermost.push_back(grammar_->free_text && std::ranges::any_of(configs_.items(at), [&](const StackItem& item) {
                            return grammar_->automaton.is_outermost(item.state);
                          }));
      at = configs_.step(at, byte);
      forced += static_cast<char>(byte);
    }
  }
  if (configs_.trouble() != Trouble::kNone) return forget();
  for (std::string_view rest = forced; !rest.empty() && n_most > 0; --n_most) {
    // Models write markers as single special tokens, so prefer these.
    const TokenId special =
        outermost[forced.size() - rest.size()] ? vocabulary_->longest_special_prefix(rest) : TokenId{-1};
    const TokenId id = special >= 0 ? special : vocabulary_->longest_prefix(rest);
    if (id < 0) return;
    ids.push_back(id);
    rest.remove_prefix(vocabulary_->bytes(id).size());
  }
}

GrammarMatcher::Counters GrammarMatcher::counters() {
  const std::lock_guard lock(mutex_);
  return {configs_.n_bytes() + masks_.n_bytes(), configs_.n_configs(), configs_.n_steps_computed(),
          masks_.n_nodes_walked(), generation_};
}

std::shared_ptr<const TokenConstraint> make_constraint(const Grammar& grammar,
                                                       std::shared_ptr<const TokenTexts> vocabulary,
                                                       const ConstraintLimits& limits) {
  return std::make_shared<GrammarConstraint>(
      std::make_shared<GrammarMatcher>(grammar.shared_parts(), std::move(vocabulary), limits.max_bytes));
}

}  // namespace ibid
