// Sampler: from logits to one token id.
//
// The result is a function of (options, seed, number of draws so far, history, logits) and of nothing else: the
// random numbers come from a counter, exp is our own, and probabilities are integers (40 bits below the
// largest), whose sums do not depend on their order. The same seed gives the same text on every machine.
//
// The history is what push() was told, behind what the owner had put there (the prompt). If no option looks back,
// no history is kept.
//
// A value: a copy continues on its own, and restoring an old copy replays. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ibid/sampler_options.h"
#include "ibid/token.h"
#include "sampling/token_history.h"

namespace ibid {

// --- What is allowed in SamplerOptions (ibid/sampler_options.h).

// kInvalidArgument with name, value and range for what is out of range (NaN always is), and for ids that are not
// below vocab_size.
Status check_sampler_options(const SamplerOptions& options, size_t vocab_size);

// --- Biases, and penalties on what prompt and answer hold already: a sampler applies them to logits before it makes
// probabilities of these. ibid/sampler_options.h has the formulas, their order and their sources.

// Changes `row`, the logits by id, none of them NaN or +infinity. No penalty makes a logit infinite, so only a bias
// can forbid an id; -infinity stays what it is. Costs the ids that are biased, counted or repeated, each at most
// once per step. `repeats` is scratch.
// REQUIRES: options were checked; dry_breakers are sorted; the history keeps what the options look back on.
void apply_penalties(const SamplerOptions& options, const TokenHistory& history,
                     std::vector<RepeatIndex::Repeat>& repeats, std::span<float> row);

// --- How likely the model itself found a token that was sampled: log-probabilities of the softmax over the
// vocabulary, before temperature, biases, penalties, cuts and constraints (as OpenAI's logprobs). They say how likely
// the model finds its answer, not how likely the sampler was to give it.

inline constexpr size_t kMaxTopLogprobs = 20;

// Log-probabilities of `id` and of the n_top likeliest ids (fewer when fewer are possible). O(vocab). The same bits
// on every machine: our own exp and log, summed in order of id in double (relative error of the sum below vocab *
// 2^-52). REQUIRES: no NaN and no +infinity among the logits, a finite one of `id`, n_top <= kMaxTopLogprobs.
TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, size_t n_top);

// --- Sampler.

class Sampler {
 public:
  static constexpr size_t kAnyVocabulary = SIZE_MAX;

  // Error: kInvalidArgument with name, value and range (check_sampler_options()).
  static Result<Sampler> create(SamplerOptions options, size_t vocab_size = kAnyVocabulary);

  // The next token. Equal logits are ordered by id, the lowest first; greedy takes the first of the
  // largest. O(vocab). -inf is a token that must not be chosen.
  // Draws one random number, and in front of it one for XTC when its probability is above 0; greedy draws none.
  // Errors: kNonFinite for NaN, +inf, or when all logits are -inf; kInvalidArgument when logit_bias forbids what
  // the logits allow. The state is then unchanged.
  Result<TokenId> sample(std::span<const float> logits);

  // The token is part of the answer now. Amortised O(1); nothing when reads_history() is false.
  void push(TokenId id);

  // Whether the history has to hold the prompt.
  bool reads_history() const { return options_.reads_history(); }
  // Starts an answer behind `prompt`; push() keeps this history up to date from here on. Costs nothing if the
  // history was kept for the same options before.
  void begin_answer(TokenHistory prompt);
  const TokenHistory& history() const { return history_; }
  // Moves the history with the answer out; the sampler's own is empty afterwards.
  TokenHistory take_history() { return std::exchange(history_, TokenHistory()); }

  uint64_t seed() const { return seed_; }
  uint64_t n_draws() const { return n_draws_; }

 private:
  // A token that may still be chosen.
  struct Candidate {
    uint32_t key;     // the order in which tokens are cut: the logit as integers have it
    TokenId id;
    uint64_t weight;  // exp((logit - max) / temperature) * 2^40, rounded down: the largest is 2^40
  };

  explicit Sampler(SamplerOptions options);
  void collect(std::span<const float> logits, float max);
  void keep_heaviest(uint64_t wanted, bool count_tokens);
  void keep_share(double share);
  void keep_typical(float max);
  void exclude_top_choices(uint64_t bits);
  uint64_t total_weight() const;

  SamplerOptions options_;
  uint64_t seed_ = 0;
  uint64_t n_draws_ = 0;
  TokenHistory history_;
  std::vector<float> adjusted_;                // scratch: logits with biases and penalties
  std::vector<RepeatIndex::Repeat> repeats_;   // scratch
  std::vector<Candidate> candidates_;          // scratch, in order of id
  std::vector<Candidate> narrowed_;            // scratch of keep_heaviest
};

// The nth number of the stream of `seed`: 64 uniform bits (SplitMix64, Steele, Lea & Flood 2014, whose
// state is a counter, so that any place of the stream is reached at once).
uint64_t random_bits(uint64_t seed, uint64_t n);

}  // namespace ibid
