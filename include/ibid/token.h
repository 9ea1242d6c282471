// Tokens: the units in which a model reads and writes text. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ibid {

using TokenId = int32_t;  // an index into the vocabulary
using TokenSpan = std::span<const TokenId>;
using Tokens = std::vector<TokenId>;

// Log-probability that the model gave to a sampled token, and the most likely tokens at its position: natural
// logarithms of probabilities before temperature, biases, penalties, truncation and constraints.
struct TokenLogprobs {
  struct Likely {
    TokenId id = 0;
    double logprob = 0;
    bool operator==(const Likely&) const = default;
  };
  TokenId id = 0;           // the sampled token
  double logprob = 0;       // always finite
  std::vector<Likely> top;  // the most likely tokens in descending order; among equals lower ids first
  bool operator==(const TokenLogprobs&) const = default;
};

}  // namespace ibid
