// The options by which ask and chat send a message at once: -p TEXT and -f FILE; and -v.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ibid {

struct MessageArguments {
  std::string prompt;
  std::vector<std::string> files;  // "-" is standard input, where the command allows that
  bool verbose = false;

  // Declares -p and -f with the help of the command. `this` must outlive the command.
  void add(CLI::App& command, const std::string& prompt_help, const std::string& file_help);
  void add_verbose(CLI::App& command);

  bool has_prompt() const { return prompt_option_->count() > 0; }
  bool given() const { return has_prompt() || !files.empty(); }

  // The files and behind them the prompt, for a command whose standard input is something else; nullopt when nothing
  // was given. Errors: kInvalidArgument for "-" as well, and those of join_question().
  Result<std::optional<std::string>> message() const;

 private:
  const CLI::Option* prompt_option_ = nullptr;
};

}  // namespace ibid
