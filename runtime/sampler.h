// Sampler: from logits to one token id.
//
// The result is a function of (options, seed, number of draws so far, logits) and of nothing else: the
// random numbers come from a counter, exp is our own, and probabilities are integers (40 bits below the
// largest), whose sums do not depend on their order. The same seed gives the same text on every machine.
//
// A value: a copy continues on its own, and restoring an old copy replays. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace ibid {

// Applied in this order: temperature, top_k, top_p, min_p (the order of Hugging Face's logits processors).
struct SamplerOptions {
  double temperature = 0.7;      // 0: greedy, whatever the rest says; at most 100
  size_t top_k = 0;              // keep the k likeliest; 0: all
  double top_p = 1.0;            // keep the fewest likeliest that hold this share; in (0, 1]
  double min_p = 0.05;           // drop those below this share of the likeliest; in [0, 1]
  std::optional<uint64_t> seed = {};  // none: a random one, which seed() reports
};

class Sampler {
 public:
  // Error: kInvalidArgument with name, value and range.
  static Result<Sampler> create(const SamplerOptions& options);

  // The next token. Equal logits are ordered by id, the lowest first; greedy takes the first of the
  // largest. O(vocab). -inf is a token that must not be chosen.
  // Errors: kNonFinite for NaN, +inf, or when nothing can be chosen; the state is then unchanged.
  Result<TokenId> sample(std::span<const float> logits);

  uint64_t seed() const { return seed_; }
  uint64_t n_draws() const { return n_draws_; }

 private:
  // A token that may still be chosen.
  struct Candidate {
    uint32_t key;     // the logit in an order that integers have
    TokenId id;
    uint64_t weight;  // exp((logit - max) / temperature) * 2^40, rounded down: the largest is 2^40
  };

  explicit Sampler(const SamplerOptions& options);
  void collect(std::span<const float> logits, float max);
  void keep_heaviest(uint64_t wanted, bool count_tokens);

  SamplerOptions options_;
  uint64_t seed_ = 0;
  uint64_t n_draws_ = 0;
  std::vector<Candidate> candidates_;  // scratch, in order of id
  std::vector<Candidate> narrowed_;    // scratch of keep_heaviest
};

// The nth number of the stream of `seed`: 64 uniform bits (SplitMix64, Steele, Lea & Flood 2014, whose
// state is a counter, so that any place of the stream is reached at once).
uint64_t random_bits(uint64_t seed, uint64_t n);

}  // namespace ibid
