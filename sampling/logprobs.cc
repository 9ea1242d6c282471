#include "sampling/logprobs.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/portable_math.h"

namespace ibid {
namespace {

// What lies further below the largest adds less than a double beside it holds, whatever the vocabulary.
constexpr double kNothing = -100;

double log_sum_exp(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) {
    const double x = static_cast<double>(logit) - max;
    if (x > kNothing) sum += portable_exp(x);
  }
  return max + portable_log(sum);
}

}  // namespace

TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, size_t n_top) {
  CHECK_LT(static_cast<size_t>(id), logits.size());
  CHECK_LE(n_top, kMaxTopLogprobs);
  const double total = log_sum_exp(logits);
  const auto logprob = [&](size_t i) { return static_cast<double>(logits[i]) - total; };
  TokenLogprobs out{id, logprob(static_cast<size_t>(id)), {}};
  // The ids of the likeliest so far. Few logits are above the least of them, so few are moved.
  std::vector<size_t> best;
  for (size_t i = 0; i < logits.size() && n_top > 0; ++i) {
    if (logits[i] < std::numeric_limits<float>::lowest()) continue;
    if (best.size() == n_top && !(logits[i] > logits[best.back()])) continue;
    if (best.size() == n_top) best.pop_back();
    const auto behind = std::upper_bound(best.begin(), best.end(), i,
                                         [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    best.insert(behind, i);
  }
  for (const size_t i : best) out.top.push_back({static_cast<TokenId>(i), logprob(i)});
  return out;
}

}  // namespace ibid
