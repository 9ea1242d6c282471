// The options of one answer, as chat and ask have them on the command line.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/chat/sampling_options.h"
#include "runtime/session/chat_session.h"

namespace ibid {

// The reader of the answers. A person is spared endless answers (terminal_defaults()); a program gets what it asks
// for.
enum class AnswerReader : uint8_t { kPerson, kProgram };

struct TurnArguments {
  std::string system;
  std::string system_file;
  std::vector<std::string> stop_strings;

  // Declares the options. The command line refuses values out of range (CLI::ValidationError), but for ids that only
  // the model's vocabulary can tell. `this` must outlive the command.
  void add(CLI::App& command);

  // The options for a model: the library's defaults, for a person those of the terminal, what the catalog recommends
  // for this file, and what was given on the command line, each over the one before.
  TurnOptions turn_options(const Engine& engine, AnswerReader reader) const;

  // The same for a server's model, of which nothing is known but what was given.
  TurnOptions given_options() const;
  std::vector<const SamplingOption*> given() const;

  // The system message. Error: kIo for a --system-file that cannot be read.
  Result<std::string> system_message() const;

 private:
  void add_sampling(CLI::App& command, bool common, const char* group);
  void add_logit_bias(CLI::App& command, const char* group);
  void apply_given(TurnOptions& options) const;

  std::vector<std::pair<const SamplingOption*, std::string>> given_;  // in the table's order
  std::map<TokenId, double> logit_bias_;
  std::vector<std::string> breakers_;
};

}  // namespace ibid
