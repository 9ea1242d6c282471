// Tokens: what a model reads and writes instead of text. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ibid {

using TokenId = int32_t;                       // an index into the vocabulary
using TokenSpan = std::span<const TokenId>;
using Tokens = std::vector<TokenId>;

// How likely the model itself found a token that was sampled, and which were the likeliest in its place: natural
// logarithms of probabilities before temperature, biases, penalties, cuts and constraints.
struct TokenLogprobs {
  struct Likely {
    TokenId id = 0;
    double logprob = 0;
    bool operator==(const Likely&) const = default;
  };
  TokenId id = 0;             // that was sampled
  double logprob = 0;         // finite
  std::vector<Likely> top;    // the likeliest, the likeliest first, lower ids first among equals
  bool operator==(const TokenLogprobs&) const = default;
};

}  // namespace ibid
