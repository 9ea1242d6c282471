// The options of one answer, as chat and ask have them on the command line.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/chat_session.h"

namespace ibid {

struct TurnArguments {
  std::string system;
  TurnOptions options;
  uint64_t seed = 0;
  std::string speculate = "on";
  CLI::Option* seed_option = nullptr;
  int64_t repetition_window = -1;  // -1: none
  int64_t dry_window = -1;
  std::vector<std::string> logit_biases;  // ID=VALUE

  // The command refuses values out of range (CLI::ValidationError) when it has been parsed, but for ids that
  // only the model's vocabulary can tell. `this` must outlive the command.
  void add(CLI::App& command);
  // The options, with the seed only where one was given.
  TurnOptions turn_options() const;

 private:
  void add_penalties(CLI::App& command);
  void add_cuts(CLI::App& command);
  void check_and_convert();
};

// The whole turn for programs: text, finish_reason, seed, logprobs where there are some, usage, timings. The tokens
// of logprobs have their id and their bytes as text, where a part of a character is U+FFFD.
Json turn_as_json(const Turn& turn, const Tokenizer& tokenizer);

}  // namespace ibid
