// Shell completions and man pages. They are generated from the same definitions as the help, so each has all options.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "base/result.h"

namespace ibid {

std::string bash_completion(const CLI::App& root);
std::string zsh_completion(const CLI::App& root);
std::string fish_completion(const CLI::App& root);

// Returns the man page (section 1) of the program or of one of its commands.
std::string man_page(const CLI::App& app);

// Writes the completions and man pages below `directory`: completions/{ibid,_ibid,ibid.fish} and man1/ibid*.1. Error:
// kIo.
Status write_shell_files(const CLI::App& root, const std::string& directory);

// Adds the hidden command that calls write_shell_files(). The build runs it.
void add_shell_files(CLI::App& root, int& exit_code);

}  // namespace ibid
