// The files by which shells and man(1) know the program. The program makes them itself, from the definitions that
// its help is made from, so that no option can be missing in one of them.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "base/result.h"

namespace ibid {

std::string bash_completion(const CLI::App& root);
std::string zsh_completion(const CLI::App& root);
std::string fish_completion(const CLI::App& root);

// A page for man(1), section 1: of the program, or of one of its commands.
std::string man_page(const CLI::App& app);

// Writes all of them below `directory`: completions/{ibid,_ibid,ibid.fish} and man1/ibid*.1. Error: kIo.
Status write_shell_files(const CLI::App& root, const std::string& directory);

// The command that does it when the program is built; no help shows it.
void add_shell_files(CLI::App& root, int& exit_code);

}  // namespace ibid
