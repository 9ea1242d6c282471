// The options of one answer, as chat and ask have them on the command line.
#pragma once

#include <CLI/App.hpp>
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

  void add(CLI::App& command);
  // The options, with the seed only where one was given.
  TurnOptions turn_options() const;
};

// The whole turn for programs: text, finish_reason, seed, usage, timings.
Json turn_as_json(const Turn& turn);

}  // namespace ibid
