// GrammarMatcher: one grammar with one vocabulary, and what was found out about them, for all constraints made of one
// prototype. Thread-safe: one lock, held for a call.
//
// A constraint's place is its ids; the number of a configuration is only a shortcut to it. When the memory for
// configurations is used up they are all forgotten, and each constraint finds its place again by its ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "grammar/configurations.h"
#include "grammar/grammar_parts.h"
#include "grammar/token_masks.h"
#include "grammar/token_trie.h"
#include "ibid/token.h"

namespace ibid {

// Where an answer stands.
struct GrammarPlace {
  Tokens ids;
  ConfigId config = Configurations::kDead;
  uint64_t generation = 0;  // of the number; 0: there is none
};

class GrammarMatcher {
 public:
  GrammarMatcher(std::shared_ptr<const Grammar::Parts> grammar, std::shared_ptr<const TokenTexts> vocabulary,
                 size_t max_bytes);

  // Errors of these, as far as they have one: kLimitExceeded when the text has too many readings, or takes too much
  // memory. What was asked for is empty then.
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

}  // namespace ibid
