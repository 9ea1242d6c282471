#include "tests/runtime/random_turns.h"

#include <algorithm>
#include <vector>

namespace ibid {

std::string random_text(Dice& dice) {
  static const std::vector<std::string> kPieces = {"x",
                                                   "Hello",
                                                   " world",
                                                   "the second",
                                                   "abcd",
                                                   "\n\n",
                                                   ".\n",
                                                   "  ",
                                                   "</think>",
                                                   "<think>",
                                                   "<|im_end|>",
                                                   "user",
                                                   "\xF0\x9F\x99\x82",
                                                   "e\xCC\x81",
                                                   "\xE2\x82\xAC",
                                                   "\xEF\xBF\xBD",
                                                   "assistant\n"};
  if (dice.chance(5)) return "";
  std::string text;
  for (size_t i = dice.below(5) + 1; i > 0; --i) text += dice.pick(kPieces);
  if (dice.chance(20)) text += std::string(dice.below(200), "qz "[dice.below(3)]);
  return text;
}

TurnOptions random_turn_options(Dice& dice, const FakeTokenizer& tokenizer) {
  TurnOptions options;
  options.sampler = {.temperature = dice.pick<double>({0, 0.7, 1.5}), .min_p = 0, .seed = dice.number()};
  options.max_tokens = dice.chance(10) ? 0 : 1 + dice.below(16);
  options.speculate = dice.chance(70);
  if (dice.chance(15)) options.sampler.repetition_penalty = 1.3;
  if (dice.chance(10)) options.sampler.repetition_window = dice.below(40);
  if (dice.chance(10)) options.sampler.frequency_penalty = 0.5;
  if (dice.chance(10)) options.sampler.dry_multiplier = 1;
  if (dice.chance(10)) options.n_logprobs = dice.below(4);
  if (dice.chance(10)) options.min_tokens = 1 + dice.below(3);
  if (options.max_tokens > 0) options.min_tokens = std::min(options.min_tokens, options.max_tokens);
  static const std::vector<std::string> kStops = {"\xEF\xBF\xBD", "a",     "lo", "\n\n", "</think>",
                                                  "\xE2\x82\xAC", "Hello", "el", "bc",   "\xEF\xBF\xBD\xEF\xBF\xBD"};
  while (dice.chance(25) && options.stop_strings.size() < 3) options.stop_strings.push_back(dice.pick(kStops));
  if (dice.chance(5)) options.sampler.logit_bias = {{tokenizer.im_end, 50}};
  options.stop_mode = dice.chance(30) ? StopMode::kDiscard : StopMode::kKeepPartial;
  return options;
}

bool go_on_with(ChatSession& session, const FakeTokenizer& tokenizer, uint64_t seed, size_t n_turns) {
  Dice dice(seed);
  for (size_t i = 0; i < n_turns; ++i) {
    const std::string text = random_text(dice);
    TurnOptions options = random_turn_options(dice, tokenizer);
    options.max_tokens = 1 + dice.below(8);
    // kContextFull and template errors are the same in both processes.
    if (session.send(text, options).status().code() == ErrorCode::kOutOfMemory) return false;
  }
  return true;
}

}  // namespace ibid
