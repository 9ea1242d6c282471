#include "grammar/grammar_matcher.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace ibid {
namespace {

using Trouble = Configurations::Trouble;

// Bytes that are forced, in one proposal. A draft is a few tokens.
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
  return {ErrorCode::kLimitExceeded, "the grammar has too many readings of the answer so far, or the answer is nested "
                                     "too deeply to be followed"};
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
  const uint64_t generation = std::exchange(place.generation, 0);  // the number is of the place before
  if (generation != generation_) return;
  configs_.begin_work();
  place.config = read(place.config, bytes_at(place, place.ids.size() - 1));
  if (configs_.trouble() != Trouble::kNone) return forget();  // the next question finds the place, or says why not
  place.generation = generation;
}

void GrammarMatcher::propose(GrammarPlace& place, size_t n_most, Tokens& ids) {
  const std::lock_guard lock(mutex_);
  configs_.begin_work();
  std::string forced;
  std::vector<bool> outermost;  // by byte: special tokens may begin there
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
    // A model writes a marker as the token that it is.
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

}  // namespace ibid
