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
                       bool special_tokens_in_first_rule, std::vector<TokenId> named_tokens)
    : automaton_(automaton),
      vocabulary_(vocabulary),
      configs_(configs),
      special_tokens_in_first_rule_(special_tokens_in_first_rule),
      named_tokens_(std::move(named_tokens)) {}

void TokenMasks::clear() {
  rule_tokens_.clear();
  wholes_.clear();
  loops_.clear();
  n_bytes_ = 0;
}

void TokenMasks::allowed(ConfigId config, bool at_beginning, TokenMask& mask) {
  const std::vector<StackItem> items(configs_.items(config).begin(), configs_.items(config).end());
  if (items.empty()) return;
  for (const StackItem& item : items) {
    if (!named_tokens_.empty()) add_named_tokens(item, mask);
    if (!special_tokens_in_first_rule_ || !automaton_.is_outermost(item.state)) continue;
    add_config(vocabulary_.special_tokens(), kSpecialTrie, configs_.at(item), mask);
  }
  if (at_beginning && vocabulary_.first_tokens() != nullptr) {
    return add_config(*vocabulary_.first_tokens(), kFirstTrie, config, mask);
  }
  for (const uint32_t number : {kShortTrie, kLongTrie}) {
    const TokenTrie& trie = number == kShortTrie ? vocabulary_.short_tokens() : vocabulary_.long_tokens();
    bool done = items.size() <= kMostItems;
    for (size_t i = 0; done && i < items.size(); ++i) done = add_item(trie, number, items[i], mask);
    if (!done) add_config(trie, number, config, mask);
  }
}

void TokenMasks::add_named_tokens(StackItem item, TokenMask& mask) {
  using Kind = ByteAutomaton::Edge::Kind;
  if (ByteAutomaton::is_block_state(item.state)) return;
  for (const ByteAutomaton::Edge& edge : automaton_.edges(item.state)) {
    if (edge.kind == Kind::kToken) mask.add(named_tokens_[edge.rule]);
    if (edge.kind != Kind::kOtherToken) continue;
    for (TokenId id = 0; id < static_cast<TokenId>(vocabulary_.size()); ++id) {
      if (id != named_tokens_[edge.rule] && !vocabulary_.bytes(id).empty()) mask.add(id);
    }
  }
}

bool TokenMasks::add_item(const TokenTrie& trie, uint32_t trie_number, StackItem item, TokenMask& mask) {
  RuleTokensKey key = {trie_number, 0, shortened(item.state, trie.max_length)};
  for (StackId stack = item.stack;;) {
    key[1] = stack == kTextStack;
    RuleTokens* known = rule_tokens(trie, key);
    if (known == nullptr) return true;
    const std::span<const StackItem> returns = configs_.returns(stack);
    const bool goes_deeper = returns.size() == 1 && key.size() < 2 + kMostFrames;
    if (!known->too_many_exits && (!known->has_costly_exits || !goes_deeper)) {
      add(known->tokens, mask);
      const size_t n_before = n_nodes_walked_;
      add_exits(trie, known->exits, stack, mask);
      known->has_costly_exits = n_nodes_walked_ - n_before > kMostExitNodes;
      return true;
    }
    if (!goes_deeper) return false;
    key.push_back(shortened(returns[0].state, trie.max_length));
    stack = returns[0].stack;
  }
}

void TokenMasks::add_exits(const TokenTrie& trie, std::span<const uint32_t> exits, StackId stack, TokenMask& mask) {
  if (exits.empty()) return;
  const ConfigId after = configs_.after_rule(stack);
  Walk out;
  for (const uint32_t node : exits) walk(trie, node, after, out);
  for (const auto& [begin, end] : out.ranges) {
    for (uint32_t i = begin; i < end; ++i) mask.add(trie.tokens[i]);
  }
}

void TokenMasks::add_config(const TokenTrie& trie, uint32_t trie_number, ConfigId config, TokenMask& mask) {
  const auto found = wholes_.find({trie_number, config});
  if (found != wholes_.end()) return add(found->second, mask);
  Walk out;
  walk(trie, 0, config, out);
  if (configs_.limit_reached() != Configurations::LimitReached::kNone) return;
  const TokenList& list = wholes_[{trie_number, config}] = as_list(trie, out);
  n_bytes_ += kMapBytes + bytes_of(list);
  add(list, mask);
}

TokenMasks::RuleTokens* TokenMasks::rule_tokens(const TokenTrie& trie, const RuleTokensKey& key) {
  const auto found = rule_tokens_.find(key);
  if (found != rule_tokens_.end()) return &found->second;
  StackId stack = key[1] != 0 ? kTextStack : kOpenStack;
  for (size_t i = key.size(); i-- > 3;) stack = configs_.push({key[i], stack});
  Walk out;
  RuleTokens known;
  known.too_many_exits = !walk(trie, 0, configs_.at({key[2], stack}), out);
  if (configs_.limit_reached() != Configurations::LimitReached::kNone) return nullptr;
  if (!known.too_many_exits) {
    known.tokens = as_list(trie, out);
    known.exits = std::move(out.exits);
    known.exits.shrink_to_fit();
  }
  n_bytes_ += kMapBytes + bytes_of(known.tokens) + known.exits.size() * sizeof(uint32_t);
  return &(rule_tokens_[key] = std::move(known));
}

bool TokenMasks::walk(const TokenTrie& trie, uint32_t node, ConfigId config, Walk& out) {
  path_.resize(std::max(path_.size(), trie.max_length + 1));
  path_[trie.nodes[node].depth] = config;
  const auto take = [&](uint32_t from, uint32_t to) {  // adds the tokens of the nodes [from, to)
    const uint32_t begin = trie.nodes[from].token_begin, end = trie.nodes[to].token_begin;
    if (begin == end) return;
    if (!out.ranges.empty() && out.ranges.back().second == begin) {
      out.ranges.back().second = end;
    } else {
      out.ranges.emplace_back(begin, end);
    }
  };
  if (node != 0) take(node, node + 1);  // also add the tokens that end at the first node itself
  const uint32_t end = trie.nodes[node].end;
  for (uint32_t at = node + 1; at < end;) {
    const TokenTrie::Node& here = trie.nodes[at];
    ++n_nodes_walked_;
    const ConfigId next = configs_.step(path_[here.depth - 1], here.byte);
    if (next == Configurations::kDead) {
      if (configs_.limit_reached() != Configurations::LimitReached::kNone) return true;
      at = here.end;
      continue;
    }
    path_[here.depth] = next;
    if (configs_.reaches_open(next)) {
      out.exits.push_back(at);
      if (out.exits.size() > kMostExits) return false;
    } else if (loops_over(trie, at, next)) {
      take(at, here.end);
      at = here.end;
      continue;
    }
    if (!configs_.items(next).empty() || configs_.may_end(next)) take(at, at + 1);
    ++at;
  }
  return true;
}

// True if all bytes below the node lead from `config` back to `config`, so that all tokens there are allowed.
bool TokenMasks::loops_over(const TokenTrie& trie, uint32_t node, ConfigId config) {
  const TokenTrie::Node& here = trie.nodes[node];
  if (here.end == node + 1 || (here.below & kBrokenClass) != 0) return false;
  const uint8_t byte = trie.nodes[node + 1].byte;
  const ConfigId next = configs_.step(config, byte);
  if (byte < 0x80 ? next != config : next == Configurations::kDead) return false;
  const auto [found, is_new] = loops_.try_emplace(config, 0);
  if (is_new) {
    found->second = find_loops(config);
    n_bytes_ += kMapBytes;
  }
  return (here.below & ~found->second) == 0;
}

ByteClasses TokenMasks::find_loops(ConfigId config) {
  ByteClasses out = ~kBrokenClass;
  for (uint8_t byte = 0; byte < 0x80; ++byte) {
    if (configs_.step(config, byte) != config) out &= ~byte_class(byte);
  }
  for (const ByteSequence& sequence : multi_byte_sequences()) {
    std::vector<ConfigId> reached = {config};
    for (const ByteRange& range : sequence) {
      std::vector<ConfigId> next;
      for (const ConfigId from : reached) {
        for (uint32_t byte = range.first; byte <= range.last; ++byte) {
          next.push_back(configs_.step(from, static_cast<uint8_t>(byte)));
        }
      }
      std::ranges::sort(next);
      next.erase(std::unique(next.begin(), next.end()), next.end());
      reached = std::move(next);
      // Stop if the bytes lead to a dead end, or to many configurations: then they do not lead back to `config`.
      if (reached[0] == Configurations::kDead || reached.size() > kMostItems) break;
    }
    if (reached.size() != 1 || reached[0] != config) return out & ~kMultiByteClass;
  }
  return out;
}

// If the state counts a repetition, returns one common state for all counts that allow the same next `horizon` bytes.
// Returns all other states unchanged.
StateId TokenMasks::shortened(StateId state, size_t horizon) const {
  if (!ByteAutomaton::is_block_state(state)) return state;
  const auto& block = automaton_.block_of(state);
  const uint32_t k = state - block.base;
  if (k < block.min && block.min - k > horizon) return block.beyond_horizon(block.min + 1);
  if (block.max == kUnbounded || block.max - std::max(k, block.min) <= horizon) return state;
  return block.beyond_horizon(k < block.min ? block.min - k : 0);
}

TokenMasks::TokenList TokenMasks::as_list(const TokenTrie& trie, const Walk& walk) const {
  const size_t n_words = (vocabulary_.size() + 63) / 64;
  size_t n_tokens = 0;
  for (const auto& [begin, end] : walk.ranges) n_tokens += end - begin;
  TokenList list;
  const bool is_short = n_tokens * sizeof(TokenId) <= n_words * sizeof(uint64_t);
  is_short ? list.ids.reserve(n_tokens) : list.words.resize(n_words);
  for (const auto& [begin, end] : walk.ranges) {
    for (const TokenId id : std::span(trie.tokens).subspan(begin, end - begin)) {
      const auto i = static_cast<size_t>(id);
      is_short ? list.ids.push_back(id) : void(list.words[i / 64] |= uint64_t{1} << (i % 64));
    }
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

using LimitReached = Configurations::LimitReached;

// Maximum number of bytes for which propose() looks ahead. A draft has only a few tokens.
constexpr size_t kMostForcedBytes = 256;

Configurations::Limits config_limits(size_t max_bytes) {
  Configurations::Limits limits;
  limits.max_bytes = max_bytes / 2;
  return limits;
}

// The ids of the tokens that the grammar refers to; -1 for those that the model lacks.
std::vector<TokenId> ids_of_named_tokens(const ByteAutomaton& automaton, const TokenTexts& vocabulary) {
  std::vector<TokenId> ids;
  for (const std::string& reference : automaton.tokens()) {
    const Result<TokenId> id = vocabulary.find(reference);
    ids.push_back(id.ok() ? *id : TokenId{-1});
  }
  return ids;
}

}  // namespace

Status check_references(const Grammar& grammar, const TokenTexts& vocabulary) {
  for (const std::string& reference : grammar.parts().automaton.tokens()) {
    const Result<TokenId> id = vocabulary.find(reference);
    if (!id.ok()) return {id.status().code(), "gbnf: " + id.status().message()};
  }
  return {};
}

GrammarMatcher::GrammarMatcher(const Grammar& grammar, std::shared_ptr<const TokenTexts> vocabulary, size_t max_bytes)
    : grammar_(grammar.shared_parts()),
      vocabulary_(std::move(vocabulary)),
      max_mask_bytes_(max_bytes / 2),
      references_(check_references(grammar, *vocabulary_)),
      configs_(grammar_->automaton, config_limits(max_bytes)),
      masks_(grammar_->automaton, *vocabulary_, configs_, grammar_->special_tokens_in_first_rule,
             ids_of_named_tokens(grammar_->automaton, *vocabulary_)) {}

ConfigId GrammarMatcher::config_after_token(ConfigId config, const GrammarPlace& place, size_t i) {
  const TokenId id = place.ids[i];
  const ConfigId after_token = configs_.step_token(config, id, masks_.named_tokens());
  if (!masks_.named_tokens().empty() && vocabulary_->is_special(id)) config = items_in_first_rule(config);
  for (const char c : i == 0 ? vocabulary_->first_bytes(id) : vocabulary_->bytes(id)) {
    if (config == Configurations::kDead) break;
    config = configs_.step(config, static_cast<uint8_t>(c));
  }
  return configs_.unite(config, after_token);
}

ConfigId GrammarMatcher::items_in_first_rule(ConfigId config) {
  if (!grammar_->special_tokens_in_first_rule) return Configurations::kDead;
  const std::vector<StackItem> items(configs_.items(config).begin(), configs_.items(config).end());
  ConfigId out = Configurations::kDead;
  for (const StackItem& item : items) {
    if (grammar_->automaton.is_outermost(item.state)) out = configs_.unite(out, configs_.at(item));
  }
  return out;
}

bool GrammarMatcher::find(GrammarPlace& place) {
  if (place.generation != generation_) {
    ConfigId config = configs_.start();
    for (size_t i = 0; i < place.ids.size(); ++i) config = config_after_token(config, place, i);
    if (configs_.limit_reached() != LimitReached::kNone) return false;
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

bool GrammarMatcher::try_again(size_t n_tried, GrammarPlace& place) {
  const bool again = configs_.limit_reached() == LimitReached::kMemory && n_tried == 0;
  if (!again || place.generation != generation_) return forget(), again;
  place.config = configs_.clear_except(place.config);
  masks_.clear();
  place.generation = ++generation_;
  return true;
}

Status GrammarMatcher::allowed(GrammarPlace& place, TokenMask& mask) {
  TRY(references_);
  const std::lock_guard lock(mutex_);
  if (masks_.n_bytes() > max_mask_bytes_) masks_.clear();
  const TokenMask before = mask;
  for (size_t n_tried = 0;; ++n_tried) {
    configs_.begin_work();
    if (find(place)) masks_.allowed(place.config, place.ids.empty(), mask);
    if (configs_.limit_reached() == LimitReached::kNone) return {};
    mask = before;
    if (!try_again(n_tried, place)) break;
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
    if (!try_again(n_tried, place)) return false;
  }
}

void GrammarMatcher::push(GrammarPlace& place, TokenId id) {
  const std::lock_guard lock(mutex_);
  place.ids.push_back(id);
  for (size_t n_tried = 0; place.generation == generation_; ++n_tried) {
    configs_.begin_work();
    const ConfigId next = config_after_token(place.config, place, place.ids.size() - 1);
    if (configs_.limit_reached() == LimitReached::kNone) {
      place.config = next;
      return;
    }
    if (!try_again(n_tried, place)) break;
  }
  place.generation = 0;  // place.config does not include the new token, so the next call must recompute it
}

void GrammarMatcher::propose(GrammarPlace& place, size_t n_most, Tokens& ids) {
  const std::lock_guard lock(mutex_);
  configs_.begin_work();
  std::string forced;
  std::vector<bool> outermost;  // by index in `forced`: true if a special token may begin with this byte
  if (find(place)) {
    for (ConfigId at = place.config; forced.size() < kMostForcedBytes && !configs_.may_end(at);) {
      std::array<bool, 256> next{};
      configs_.next_bytes(at, next);
      const auto first = std::ranges::find(next, true);
      if (first == next.end() || std::find(first + 1, next.end(), true) != next.end()) break;
      const auto byte = static_cast<uint8_t>(first - next.begin());
      outermost.push_back(grammar_->special_tokens_in_first_rule &&
                          std::ranges::any_of(configs_.items(at), [&](const StackItem& item) {
                            return grammar_->automaton.is_outermost(item.state);
                          }));
      at = configs_.step(at, byte);
      forced += static_cast<char>(byte);
    }
  }
  if (configs_.limit_reached() != LimitReached::kNone) return forget();
  for (std::string_view rest = forced; !rest.empty() && n_most > 0; --n_most) {
    // Prefer special tokens to ordinary tokens of the same bytes, because models write markers as single special
    // tokens.
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
      std::make_shared<GrammarMatcher>(grammar, std::move(vocabulary), limits.max_bytes));
}

std::vector<std::string> ignored_of(const TokenConstraint& constraint) {
  const auto* made = dynamic_cast<const GrammarConstraint*>(&constraint);
  return made == nullptr ? std::vector<std::string>() : made->matcher()->ignored();
}

}  // namespace ibid
