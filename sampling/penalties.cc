#include "sampling/penalties.h"

#include <algorithm>
#include <limits>

namespace ibid {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// row[id] becomes change(row[id]), as a finite float; ids beyond the row and forbidden ones are passed over.
template <typename Change>
void change_logit(std::span<float> row, TokenId id, Change change) {
  const auto i = static_cast<size_t>(id);
  if (i >= row.size() || row[i] == kMinusInfinity) return;
  constexpr double kMost = std::numeric_limits<float>::max();
  row[i] = static_cast<float>(std::clamp(change(static_cast<double>(row[i])), -kMost, kMost));
}

void apply_biases(const SamplerOptions& options, std::span<float> row) {
  for (const auto& [id, bias] : options.logit_bias) {
    if (bias < -std::numeric_limits<double>::max()) {
      if (static_cast<size_t>(id) < row.size()) row[static_cast<size_t>(id)] = kMinusInfinity;
    } else {
      change_logit(row, id, [bias = bias](double x) { return x + bias; });
    }
  }
}

// How many ids stand at the end without a breaker, as far as a repetition can reach.
size_t length_behind_breaker(const SamplerOptions& options, TokenSpan ids) {
  const std::vector<TokenId>& breakers = options.dry_breakers;
  size_t n = 0;
  while (n < std::min(ids.size(), RepeatIndex::kMaxMatch) &&
         !std::binary_search(breakers.begin(), breakers.end(), ids[ids.size() - 1 - n])) {
    ++n;
  }
  return n;
}

void apply_dry(const SamplerOptions& options, const TokenHistory& history, std::vector<RepeatIndex::Repeat>& repeats,
               std::span<float> row) {
  history.repeats().find(options.dry_allowed_length, length_behind_breaker(options, history.ids()),
                         options.dry_window.value_or(TokenHistory::kEverything), repeats);
  const std::vector<TokenId>& breakers = options.dry_breakers;
  for (const auto& [id, length] : repeats) {
    if (std::binary_search(breakers.begin(), breakers.end(), id)) continue;
    // Multiplied out: pow() differs between machines.
    double penalty = options.dry_multiplier;
    for (size_t n = options.dry_allowed_length; n < length; ++n) penalty *= options.dry_base;
    change_logit(row, id, [penalty](double x) { return x - penalty; });
  }
}

}  // namespace

void apply_penalties(const SamplerOptions& options, const TokenHistory& history,
                     std::vector<RepeatIndex::Repeat>& repeats, std::span<float> row) {
  apply_biases(options, row);
  if (const double penalty = options.repetition_penalty; penalty != 1) {
    for (const auto& [id, count] : history.recent()) {
      change_logit(row, id, [penalty](double x) { return x > 0 ? x / penalty : x * penalty; });
    }
  }
  if (options.frequency_penalty != 0 || options.presence_penalty != 0) {
    for (const auto& [id, count] : history.answer()) {
      const double penalty = options.frequency_penalty * count + options.presence_penalty;
      change_logit(row, id, [penalty](double x) { return x - penalty; });
    }
  }
  if (options.dry_multiplier != 0) apply_dry(options, history, repeats, row);
}

}  // namespace ibid
