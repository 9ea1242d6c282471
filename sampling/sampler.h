// Sampler: draws one token from logits.
//
// The result is a function of (options, seed, number of draws so far, history, logits) and of nothing else: the random
// numbers come from a counter, exp is our own, and probabilities are integers in units of 2^-40 of the largest, whose
// sums do not depend on their order. The same seed gives the same text on every machine.
//
// The history is the prompt, which the owner passes to begin_answer(), and the tokens of push(). It is kept only if an
// option needs it.
//
// A value: a copy is independent, and restoring an old copy repeats the same draws. Not thread-safe.
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

// --- Allowed values of SamplerOptions (ibid/sampler_options.h).

// Returns kInvalidArgument with name, value and range for an option that is out of range (NaN always is), and for token
// ids >= vocab_size.
Status check_sampler_options(const SamplerOptions& options, size_t vocab_size);

// --- Biases, and penalties on tokens of prompt and answer, applied to the logits before the softmax.
// ibid/sampler_options.h has the formulas, their order and their sources.

// Applies biases and penalties to `row`, the logits by token, none of them NaN or +infinity. A logit of -infinity
// stays. Penalties keep logits finite, so only a bias can forbid a token. O(tokens that are biased, counted or
// repeated). `repeats` is scratch memory. REQUIRES: options were checked; dry_breakers are sorted; the history keeps
// everything that the options need.
void apply_penalties(const SamplerOptions& options, const TokenHistory& history,
                     std::vector<RepeatIndex::Repeat>& repeats, std::span<float> row);

// --- Log-probabilities of sampled tokens: logarithms of the softmax over the vocabulary before temperature, biases,
// penalties, cuts and constraints (as OpenAI's logprobs). So they describe the distribution of the model, not the
// distribution from which the token was sampled.

inline constexpr size_t kMaxTopLogprobs = 20;
inline constexpr size_t kMaxLogprobIds = 128;

// Returns the log-probabilities of `id` and of the n_top most likely tokens (fewer if fewer have a probability above
// 0). O(vocab). Gives the same bits on every machine: uses our own exp and log, and sums in double by ascending token
// (relative error of the sum below vocab * 2^-52). REQUIRES: no logit is NaN or +infinity, that of `id` is finite,
// n_top <= kMaxTopLogprobs.
TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, size_t n_top);
// Returns the log-probabilities of `id` and of those tokens of `ids` whose probability is above 0.
TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, TokenSpan ids);

// --- Sampler.

class Sampler {
 public:
  static constexpr size_t kAnyVocabulary = SIZE_MAX;

  // Error: kInvalidArgument with name, value and range (check_sampler_options()).
  static Result<Sampler> create(SamplerOptions options, size_t vocab_size = kAnyVocabulary);

  // Samples the next token. A logit of -inf forbids its token. Equal logits are ordered by id, lowest first; greedy
  // sampling takes the first of the largest. O(vocab). Draws one random number, preceded by one for XTC if its
  // probability is above 0; greedy sampling draws no number. Errors: kNonFinite for NaN, +inf, or if all logits are
  // -inf; kInvalidArgument if logit_bias forbids every token that the logits allow. After an error the state is
  // unchanged.
  Result<TokenId> sample(std::span<const float> logits);

  // As token_logprobs(), for the distribution from which the last sample() drew `id`: after temperature, biases,
  // penalties and cuts. The most likely tokens are only those that could be drawn. REQUIRES: `id` is that token.
  TokenLogprobs drawn_logprobs(TokenId id, size_t n_top) const;

  // Appends a token to the answer. Amortised O(1); does nothing if reads_history() is false.
  void push(TokenId id);

  // True if an option needs the history (TokenHistory), which must then contain the prompt.
  bool reads_history() const { return options_.reads_history(); }
  // Starts an answer after `prompt`; push() appends to this history from now on. O(1) if `prompt` was kept for the same
  // options before (TokenHistory::keep()).
  void begin_answer(TokenHistory prompt);
  const TokenHistory& history() const { return history_; }
  // Moves the history, answer included, out of the sampler, whose history is empty afterwards.
  TokenHistory take_history() { return std::exchange(history_, TokenHistory()); }

  uint64_t seed() const { return seed_; }
  uint64_t n_draws() const { return n_draws_; }

 private:
  // A token that may still be sampled.
  struct Candidate {
    uint32_t key;  // the logit as an integer that sorts in the same order; candidates with the largest keys are kept
    TokenId id;
    uint64_t weight;  // exp((logit - max) / temperature) * 2^40, rounded down: at most 2^40
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
  std::vector<float> adjusted_;               // scratch: the logits with biases and penalties applied
  std::vector<RepeatIndex::Repeat> repeats_;  // scratch
  std::vector<Candidate> candidates_;  // tokens that the last sample() could draw, by id; empty if sampling was greedy
  std::vector<Candidate> narrowed_;    // scratch of keep_heaviest
};

// Returns number n of the random stream of `seed`: 64 uniform bits (SplitMix64, Steele, Lea & Flood 2014, whose state
// is a counter, so every number of the stream can be computed directly).
uint64_t random_bits(uint64_t seed, uint64_t n);

}  // namespace ibid
