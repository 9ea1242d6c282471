#include "runtime/generate/turn_sampler.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ibid {

Result<Sampler> make_turn_sampler(const TurnOptions& options, const Tokenizer& tokenizer) {
  if (options.n_logprobs && *options.n_logprobs > kMaxTopLogprobs) {
    return {ErrorCode::kInvalidArgument, "n_logprobs: " + std::to_string(*options.n_logprobs) + ", allowed: 0 to " +
                                             std::to_string(kMaxTopLogprobs)};
  }
  if (options.priority < Priority::kHigh || options.priority > Priority::kLow) {
    return {ErrorCode::kInvalidArgument, "priority: " + std::to_string(static_cast<int>(options.priority)) +
                                             ", allowed: one of the values of Priority"};
  }
  if (options.stop_mode != StopMode::kKeepPartial && options.stop_mode != StopMode::kDiscard) {
    return {ErrorCode::kInvalidArgument, "stop_mode: " + std::to_string(static_cast<int>(options.stop_mode)) +
                                             ", allowed: one of the values of StopMode"};
  }
  const std::vector<std::string>& breakers = options.dry_sequence_breakers;
  if (std::find(breakers.begin(), breakers.end(), "") != breakers.end()) {
    return {ErrorCode::kInvalidArgument, "dry_sequence_breakers: a string is empty, allowed are non-empty strings"};
  }
  SamplerOptions sampler = options.sampler;
  const size_t vocab_size = tokenizer.vocab_size();
  for (size_t i = 0; i < vocab_size && sampler.dry_multiplier != 0; ++i) {
    const std::string_view bytes = tokenizer.token_bytes(static_cast<TokenId>(i));
    const auto holds = [&](const std::string& text) { return bytes.find(text) != bytes.npos; };
    if (std::any_of(breakers.begin(), breakers.end(), holds)) {
      sampler.dry_breakers.push_back(static_cast<TokenId>(i));
    }
  }
  return Sampler::create(std::move(sampler), vocab_size);
}

}  // namespace ibid
