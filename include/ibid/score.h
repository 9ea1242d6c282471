// Scores of given tokens: how likely each is, given the tokens before it. Plain data for Engine::score().
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "ibid/token.h"
#include "ibid/turn.h"
#include "ibid/usage.h"

namespace ibid {

struct ScoreOptions {
  // Index of the first token to score. Earlier tokens are prefilled or taken from the cache, but not scored. No token
  // precedes token 0, which cannot be scored: 0 means 1.
  size_t first = 1;
  size_t n_top = 0;                  // number of most likely tokens to return for each position; at most 20
  std::string cache_namespace = {};  // namespace of cached keys and values, as in SessionOptions
  Priority priority = Priority::kNormal;
  std::stop_token stop = {};
};

struct Scored {
  std::vector<TokenLogprobs> tokens;  // log-probabilities of ids[first], ids[first + 1], ...
  std::vector<size_t> ranks;          // rank of each token: one more than the number of tokens that were more likely
  Usage usage;
};

}  // namespace ibid
