// SamplerOptions: how the next token is sampled from the logits. Plain data.
//
// By default only temperature and min_p have an effect. The steps in order, each applied to the result before:
//   logit_bias          added to the logits (OpenAI API)
//   repetition_penalty  logits of tokens in the window: divided if positive, else multiplied (Keskar et al. 2019, CTRL,
//                       4.1), prompt and answer alike, as in Hugging Face's logits processors
//   frequency_penalty, presence_penalty
//                       logit - count * frequency - (count > 0) * presence, counted over the answer (OpenAI API)
//   DRY                 a token that would continue a repetition of n tokens loses multiplier * base^(n -
//                       allowed_length) (p-e-w, text-generation-webui #5677); n is capped at 50
//   temperature         0: takes the largest logit after the steps above, and ignores the steps below
//   top_k, top_p, min_p (Fan et al. 2018; Holtzman et al. 2020; Nguyen et al. 2024)
//   typical_p           the tokens whose surprise is nearest to the distribution's entropy (Meister et al. 2022)
//   XTC                 with probability xtc_probability, drops all but the least likely of the tokens that reach the
//                       threshold (p-e-w, text-generation-webui #6335)
// The order is that of Hugging Face's processors and warpers, with DRY after the other penalties and XTC after the
// other truncations, as their authors defined them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ibid/token.h"

namespace ibid {

struct SamplerOptions {
  double temperature = 0.7;           // 0 to 100; 0: greedy
  size_t top_k = 0;                   // keep the k most likely; 0: all
  double top_p = 1.0;                 // keep the fewest most likely tokens with this total probability; in (0, 1]
  double min_p = 0.05;                // drop tokens below this fraction of the largest probability; in [0, 1]
  std::optional<uint64_t> seed = {};  // seed of the random numbers; unset: a random seed, which Turn::seed reports

  double typical_p = 1.0;      // keep the fewest most typical tokens with this total probability; in (0, 1]; 1: off
  double xtc_probability = 0;  // in [0, 1]; 0: off
  double xtc_threshold = 0.1;  // threshold of XTC, in [0, 1]; above 0.5 no two tokens reach it, so XTC has no effect

  // Penalties affect only tokens that occur in their window (the last tokens of prompt and answer) or in the answer.
  double repetition_penalty = 1.0;               // above 0, to 100; 1: off
  std::optional<size_t> repetition_window = {};  // number of last tokens of prompt and answer; unset: all
  double frequency_penalty = 0;                  // -2 to 2
  double presence_penalty = 0;                   // -2 to 2
  double dry_multiplier = 0;                     // 0 to 1000; 0: off
  double dry_base = 1.75;                        // 1 to 100
  size_t dry_allowed_length = 2;                 // DRY does not penalise repetitions of fewer tokens; 1 to 50
  std::optional<size_t> dry_window = {};   // number of last tokens of prompt and answer that DRY searches; unset: all
  std::vector<TokenId> dry_breakers = {};  // tokens across which no repetition extends, and which are not penalised

  std::map<TokenId, double> logit_bias = {};  // added to the logits, -100 to 100; -infinity: the token is never sampled

  // True if an option depends on the earlier tokens.
  bool reads_history() const {
    return repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0 || dry_multiplier != 0;
  }
};

}  // namespace ibid
