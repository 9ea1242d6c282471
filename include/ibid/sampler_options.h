// SamplerOptions: how the next token is chosen from the logits. Plain data.
//
// The defaults turn everything off but temperature and min_p. Applied in this order, each to what the one before
// left:
//   logit_bias          added to the logits (OpenAI API)
//   repetition_penalty  logits of ids in the window: divided where positive, multiplied where not (Keskar et al.
//                       2019, CTRL, 4.1), prompt and answer alike as in Hugging Face's logits processors
//   frequency_penalty, presence_penalty
//                       logit - count * frequency - (count > 0) * presence, counted over the answer (OpenAI API)
//   DRY                 an id that would go on with a repetition of n ids loses multiplier * base^(n -
//                       allowed_length) (p-e-w, text-generation-webui #5677); n counts to 50
//   temperature         0: the likeliest of what the above made of the logits, whatever the rest says
//   top_k, top_p, min_p (Fan et al. 2018; Holtzman et al. 2020; Nguyen et al. 2024)
//   typical_p           the tokens whose surprise is nearest to the distribution's entropy (Meister et al. 2022)
//   XTC                 with its probability, drops all but the least likely of the tokens that reach the
//                       threshold (p-e-w, text-generation-webui #6335)
// This is the order of Hugging Face's processors and warpers, with DRY behind the other penalties and XTC behind
// the other cuts, as where they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ibid/token.h"

namespace ibid {

struct SamplerOptions {
  double temperature = 0.7;      // at most 100
  size_t top_k = 0;              // keep the k likeliest; 0: all
  double top_p = 1.0;            // keep the fewest likeliest that hold this share; in (0, 1]
  double min_p = 0.05;           // drop those below this share of the likeliest; in [0, 1]
  std::optional<uint64_t> seed = {};  // none: a random one, which Turn::seed reports

  double typical_p = 1.0;        // keep the fewest most typical that hold this share; in (0, 1]; 1: off
  double xtc_probability = 0;    // in [0, 1]; 0: off
  double xtc_threshold = 0.1;    // in [0, 1]; above 0.5 no two tokens reach it

  // On ids that do not occur a penalty has no effect. Windows end at the last id.
  double repetition_penalty = 1.0;                // above 0, to 100; 1: off
  std::optional<size_t> repetition_window = {};   // ids of prompt and answer; none: all
  double frequency_penalty = 0;                   // -2 to 2
  double presence_penalty = 0;                    // -2 to 2
  double dry_multiplier = 0;                      // 0 to 1000; 0: off
  double dry_base = 1.75;                         // 1 to 100
  size_t dry_allowed_length = 2;                  // shorter repetitions cost nothing; 1 to 50
  std::optional<size_t> dry_window = {};          // ids of prompt and answer; none: all
  std::vector<TokenId> dry_breakers = {};         // no repetition reaches across one, and none is penalised

  std::map<TokenId, double> logit_bias = {};      // -100 to 100, or -infinity: never chosen

  // Whether anything looks back on prompt and answer.
  bool reads_history() const {
    return repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0 || dry_multiplier != 0;
  }
};

}  // namespace ibid
